// A file of tokens: nothing is read before it is used, and the page cache holds
// it, not us. How it holds them, token_layout.h says.
#ifndef CASTOR_RUNTIME_DATA_TOKEN_FILE_H_
#define CASTOR_RUNTIME_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/data/token_layout.h"
#include "runtime/data/token_source.h"

namespace castor {

// Thread-safe: reads only. The file may be renamed or removed while it is open;
// if it shrinks, reading what is gone is an error. (Were it mapped, the system
// would end the process.)
class TokenFile : public TokenSource {
 public:
  // NotFound: no such file. InvalidArgument: it is no file, or as
  // FindTokenLayout.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(
      const std::string& path, const TokenFileOptions& options);
  ~TokenFile() override;
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const override { return path_; }
  int64_t size() const override { return layout_.tokens; }
  absl::Status Read(int64_t begin, int64_t count, int64_t vocabulary,
                    int32_t* out) const override;

 private:
  TokenFile(std::string path, int fd, const TokenLayout& layout);
  template <typename Token>
  absl::Status ReadAs(int64_t begin, int64_t count, int64_t vocabulary,
                      int32_t* out) const;

  const std::string path_;
  const int fd_;
  const TokenLayout layout_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_TOKEN_FILE_H_
