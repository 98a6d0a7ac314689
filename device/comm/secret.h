// What the ranks of a run know and nobody else does, and how one of them shows
// that it knows it without saying it.
//
// The secret comes from `castor launch`, which makes one for each run, or from
// the user: CASTOR_SECRET holds it, or CASTOR_SECRET_FILE names a file that
// only the user can read. Keys are made from it by HMAC-SHA256 (RFC 2104), and
// a proof is one, too.
//
// Threads: any.
#ifndef CASTOR_DEVICE_COMM_SECRET_H_
#define CASTOR_DEVICE_COMM_SECRET_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

inline constexpr size_t kKeyBytes = 32;
// What can be guessed is no secret: who may connect may try as many as it can
// compute.
inline constexpr size_t kMinSecretBytes = 16;

// HMAC-SHA256 of `text`, kKeyBytes long. The key may be empty. It is formed
// from libcrypto's plain SHA-256 sum, since libcrypto's own HMAC() allocates
// and reads a configuration, and can fail for want of either.
std::string Hmac(absl::string_view key, absl::string_view text);

// Whether the two are equal, in a time that says nothing of where they differ.
bool SameInConstantTime(absl::string_view a, absl::string_view b);

// kKeyBytes that nobody can foresee. Unavailable: the system gives none.
absl::StatusOr<std::string> RandomKey();

// A new secret, in characters that every variable can hold.
absl::StatusOr<std::string> MakeSecret();

// The user's secret: `text`, the value of CASTOR_SECRET, or what the file named
// by CASTOR_SECRET_FILE holds, without spaces and newlines at its ends; "" if
// both are empty. InvalidArgument: both are there, or it is shorter than
// kMinSecretBytes, or no small plain file. PermissionDenied: somebody else owns
// the file, or may read it. NotFound: there is none.
absl::StatusOr<std::string> ReadSecret(absl::string_view text,
                                       const std::string& file);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_SECRET_H_
