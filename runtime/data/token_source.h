// A run of tokens that is read by parts.
#ifndef CASTOR_RUNTIME_DATA_TOKEN_SOURCE_H_
#define CASTOR_RUNTIME_DATA_TOKEN_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace castor {

// Thread-safe: reads only.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // The file that the user named.
  virtual const std::string& path() const = 0;
  virtual int64_t size() const = 0;  // tokens

  // out[i] = token `begin` + i, for i in [0, count), which must lie in the
  // source. InvalidArgument: a token outside [0, vocabulary), with file and
  // position. DataLoss: the file is not what it was, or its disk cannot read
  // it.
  virtual absl::Status Read(int64_t begin, int64_t count, int64_t vocabulary,
                            int32_t* out) const = 0;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_TOKEN_SOURCE_H_
