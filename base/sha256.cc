// OpenSSL 3 would have us use EVP_Digest*, whose sums cannot leave the process
// (until 4.0). SHA256_CTX is plain data, documented as such, and the same code
// adds to it.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include <openssl/sha.h>

#include <string>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace castor {
namespace {

static_assert(sizeof(Sha256::State) == sizeof(SHA256_CTX) &&
              alignof(Sha256::State) >= alignof(SHA256_CTX));
static_assert(Sha256::kBlockBytes == SHA256_CBLOCK &&
              Sha256::kDigestBytes == SHA256_DIGEST_LENGTH);

// Compiled with -fno-strict-aliasing.
SHA256_CTX* Context(Sha256::State& state) {
  return reinterpret_cast<SHA256_CTX*>(state.data());
}

}  // namespace

// The calls fail on misuse only.
Sha256::Sha256() { CASTOR_CHECK(SHA256_Init(Context(state_)) == 1); }

void Sha256::Update(const void* data, int64_t size_bytes) {
  CASTOR_CHECK(!ended_ && size_bytes >= 0);
  if (size_bytes == 0) return;
  CASTOR_CHECK(SHA256_Update(Context(state_), data,
                             static_cast<size_t>(size_bytes)) == 1);
}

std::string Sha256::Digest() {
  CASTOR_CHECK(!ended_);
  ended_ = true;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  CASTOR_CHECK(SHA256_Final(digest, Context(state_)) == 1);
  return std::string(reinterpret_cast<const char*>(digest), sizeof(digest));
}

std::string Sha256::HexDigest() { return absl::BytesToHexString(Digest()); }

}  // namespace castor
