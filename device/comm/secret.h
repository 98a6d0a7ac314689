// The secret that only the ranks of a run know, and the functions by which a
// rank proves that it knows it without telling it.
//
// The secret comes from `castor launch`, which makes one for each run, or from
// the user: CASTOR_SECRET holds it, or CASTOR_SECRET_FILE names a file that
// only the user can read. Keys and proofs are made from it by HMAC-SHA256 (RFC
// 2104).
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
// A shorter secret could be guessed: a peer that can connect may try as many as
// it can compute.
inline constexpr size_t kMinSecretBytes = 16;

// Returns the HMAC-SHA256 of `text`, kKeyBytes long. The key may be empty. It
// is computed with libcrypto's plain SHA-256, since libcrypto's own HMAC()
// allocates memory and reads a configuration, and may fail at either.
std::string Hmac(absl::string_view key, absl::string_view text);

// Returns true if the two are equal, in a time that does not depend on where
// they differ.
bool SameInConstantTime(absl::string_view a, absl::string_view b);

// Returns kKeyBytes random bytes. Unavailable: the system gives none.
absl::StatusOr<std::string> RandomKey();

// Makes a new secret, in characters that every variable can hold.
absl::StatusOr<std::string> MakeSecret();

// Returns the user's secret: `text`, the value of CASTOR_SECRET, or the content
// of the file named by CASTOR_SECRET_FILE, without spaces and newlines at its
// ends; "" if both are empty. InvalidArgument: both are given, the secret is
// shorter than kMinSecretBytes, or the file is no small plain file.
// PermissionDenied: another user owns the file, or may read it. NotFound: the
// file does not exist.
absl::StatusOr<std::string> ReadSecret(absl::string_view text,
                                       const std::string& file);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_SECRET_H_
