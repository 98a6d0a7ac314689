// SHA-256 of bytes that come in pieces (FIPS 180-4), through libcrypto.
#ifndef CASTOR_BASE_SHA256_H_
#define CASTOR_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace castor {

// The digest depends on the bytes alone, not on how they are cut into pieces,
// nor on who added which. Not thread-safe.
class Sha256 {
 public:
  // A sum that is under way, to be handed to another process of the same
  // program, which goes on with it.
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

  // The sum's kDigestBytes. Ends it: no call may follow.
  std::string Digest();
  // The same as 64 lower-case hexadecimal digits.
  std::string HexDigest();

 private:
  State state_;  // a SHA256_CTX
  bool ended_ = false;
};

}  // namespace castor

#endif  // CASTOR_BASE_SHA256_H_
