// SHA-256 of bytes that come in pieces (FIPS 180-4), through libcrypto.
#ifndef CASTOR_BASE_SHA256_H_
#define CASTOR_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace castor {

// The digest depends only on the bytes, not on how they are cut into pieces.
// Not thread-safe.
class Sha256 {
 public:
  // The state of an unfinished digest, with which another process of the same
  // program can continue.
  using State = std::array<uint32_t, 28>;

  static constexpr int kBlockBytes = 64;
  static constexpr int kDigestBytes = 32;

  Sha256();
  explicit Sha256(const State& state) : state_(state) {}
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(const void* data, int64_t size_bytes);
  void Update(absl::string_view bytes) {
    Update(bytes.data(), static_cast<int64_t>(bytes.size()));
  }

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

  // Returns the digest's kDigestBytes. The last call: none may follow.
  std::string Digest();
  // Returns the digest as 64 lower-case hexadecimal digits.
  std::string HexDigest();

 private:
  State state_;  // a SHA256_CTX
  bool ended_ = false;
};

}  // namespace castor

#endif  // CASTOR_BASE_SHA256_H_
