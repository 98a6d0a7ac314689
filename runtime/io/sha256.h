// SHA-256 of bytes that come in pieces (FIPS 180-4), through libcrypto.
#ifndef CASTOR_RUNTIME_IO_SHA256_H_
#define CASTOR_RUNTIME_IO_SHA256_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace castor {

// The digest depends on the bytes alone, not on how they are cut into pieces.
// Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(const void* data, int64_t size_bytes);
  void Update(absl::string_view bytes) {
    Update(bytes.data(), static_cast<int64_t>(bytes.size()));
  }

  // 64 lower-case hexadecimal digits. Ends the sum: no call may follow.
  std::string HexDigest();

 private:
  void* context_;  // EVP_MD_CTX; null after HexDigest
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_IO_SHA256_H_
