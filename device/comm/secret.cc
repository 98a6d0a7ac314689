#include "device/comm/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "device/comm/socket.h"

namespace castor {
namespace {

constexpr off_t kMaxFileBytes = 4096;
constexpr char kHowToMake[] =
    "make one by `umask 077; openssl rand -hex 32 >FILE`";

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) {
  const auto refuse = [&](absl::StatusCode code, absl::string_view why) {
    return absl::Status(code,
                        absl::StrCat("CASTOR_SECRET_FILE: ", path, " ", why));
  };
  // A FIFO keeps nobody waiting.
  const Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found = {};
  if (!file || fstat(file.fd(), &found) != 0) {
    const int error = errno;
    return refuse(error == ENOENT ? absl::StatusCode::kNotFound
                                  : absl::StatusCode::kPermissionDenied,
                  absl::StrCat("cannot be read: ", std::strerror(error)));
  }
  if (!S_ISREG(found.st_mode) || found.st_size > kMaxFileBytes) {
    return refuse(absl::StatusCode::kInvalidArgument,
                  absl::StrCat("is no file of a secret; ", kHowToMake));
  }
  if (found.st_uid != geteuid()) {
    return refuse(absl::StatusCode::kPermissionDenied,
                  "belongs to another user: use a file of your own");
  }
  if ((found.st_mode & 077) != 0) {
    return refuse(
        absl::StatusCode::kPermissionDenied,
        absl::StrCat("may be read or written by others: chmod 600 ", path));
  }
  std::string text(kMaxFileBytes, '\0');
  ssize_t got;
  do {
    got = read(file.fd(), text.data(), text.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return refuse(absl::StatusCode::kPermissionDenied,
                  absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  text.resize(got);
  return std::string(absl::StripAsciiWhitespace(text));
}

}  // namespace

std::string Hmac(absl::string_view key, absl::string_view text) {
  std::string block(Sha256::kBlockBytes, '\0');
  if (key.size() > block.size()) {
    Sha256 of_key;
    of_key.Update(key);
    block.replace(0, kKeyBytes, of_key.Digest());
  } else {
    block.replace(0, key.size(), key.data(), key.size());
  }
  // The sum of the block, each of its bytes changed by `pad`, and `message`.
  const auto padded_sum = [&block](char pad, absl::string_view message) {
    std::string padded = block;
    for (char& byte : padded) byte ^= pad;
    Sha256 sum;
    sum.Update(padded);
    sum.Update(message);
    return sum.Digest();
  };
  return padded_sum(0x5c, padded_sum(0x36, text));
}

bool SameInConstantTime(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::StatusOr<std::string> RandomKey() {
  std::string key(kKeyBytes, '\0');
  ssize_t got;
  do {
    got = getrandom(key.data(), key.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(key.size())) {
    return SocketError("no random numbers");
  }
  return key;
}

absl::StatusOr<std::string> MakeSecret() {
  CASTOR_ASSIGN_OR_RETURN(const std::string key, RandomKey());
  return absl::BytesToHexString(key);
}

absl::StatusOr<std::string> ReadSecret(absl::string_view text,
                                       const std::string& file) {
  if (!text.empty() && !file.empty()) {
    return absl::InvalidArgumentError(
        "the environment has CASTOR_SECRET and CASTOR_SECRET_FILE: unset one "
        "of them");
  }
  if (text.empty() && file.empty()) return std::string();
  std::string secret(absl::StripAsciiWhitespace(text));
  if (!file.empty()) {
    CASTOR_ASSIGN_OR_RETURN(secret, ReadPrivateFile(file));
  }
  if (secret.size() < kMinSecretBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.empty() ? "CASTOR_SECRET"
                     : absl::StrCat("CASTOR_SECRET_FILE: ", file),
        " holds ", secret.size(), " characters, and ", kMinSecretBytes,
        " are the least that nobody guesses; ", kHowToMake));
  }
  return secret;
}

}  // namespace castor
