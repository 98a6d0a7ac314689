#include "runtime/io/sha256.h"

#include <openssl/evp.h>

#include <string>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace castor {
namespace {

EVP_MD_CTX* Context(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}

}  // namespace

// libcrypto's digest calls fail only without memory or on misuse.
Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CASTOR_CHECK(context_ != nullptr);
  CASTOR_CHECK(
      EVP_DigestInit_ex(Context(context_), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(Context(context_)); }

void Sha256::Update(const void* data, int64_t size_bytes) {
  CASTOR_CHECK(context_ != nullptr && size_bytes >= 0);
  if (size_bytes == 0) return;
  CASTOR_CHECK(EVP_DigestUpdate(Context(context_), data,
                                static_cast<size_t>(size_bytes)) == 1);
}

std::string Sha256::HexDigest() {
  CASTOR_CHECK(context_ != nullptr);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CASTOR_CHECK(EVP_DigestFinal_ex(Context(context_), digest, &size) == 1);
  EVP_MD_CTX_free(Context(context_));
  context_ = nullptr;
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace castor
