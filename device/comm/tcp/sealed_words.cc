#include "device/comm/tcp/sealed_words.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "device/comm/secret.h"
#include "device/comm/socket.h"

namespace castor {
namespace {

constexpr uint32_t kMagic = 0x43545332;  // the protocol's version
// The longest time that a few bytes may take to or from a rank that waits.
constexpr int64_t kWordsNs = 10'000'000'000;
constexpr size_t kMaxReason = 8192;

// The header before a word's text, between equal machines.
struct Header {
  uint32_t magic;
  int32_t code;
  uint32_t text_bytes;
};

template <typename T>
std::string AsBytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

std::string SealedWords::Seal(bool leader_speaks, uint64_t number,
                              absl::string_view words) const {
  return Hmac(key_, absl::StrCat(leader_speaks ? "leader" : "others",
                                 AsBytes(number), words));
}

absl::Status SealedWords::Say(int fd, const absl::Status& status,
                              absl::string_view text) {
  const std::string reason(status.message().substr(0, kMaxReason));
  if (!status.ok()) text = reason;
  const Header header = {.magic = kMagic,
                         .code = static_cast<int32_t>(status.code()),
                         .text_bytes = static_cast<uint32_t>(text.size())};
  std::string words = absl::StrCat(AsBytes(header), text);
  words += Seal(leads_, said_++, words);
  return WriteAll(fd, words.data(), words.size(), SteadyNowNs() + kWordsNs);
}

absl::StatusOr<std::string> SealedWords::Hear(int fd, int64_t until_ns,
                                              bool* heard) {
  *heard = false;
  Header header = {};
  CASTOR_RETURN_IF_ERROR(ReadAll(fd, &header, sizeof(header), until_ns));
  if (header.magic != kMagic ||
      header.text_bytes > std::max(max_bytes_, kMaxReason)) {
    return absl::UnavailableError("what it says is of no rank of Castor");
  }
  std::string text(header.text_bytes, '\0');
  std::string seal(kKeyBytes, '\0');
  const int64_t soon_ns = SteadyNowNs() + kWordsNs;
  CASTOR_RETURN_IF_ERROR(ReadAll(fd, text.data(), text.size(), soon_ns));
  CASTOR_RETURN_IF_ERROR(ReadAll(fd, seal.data(), seal.size(), soon_ns));
  if (!SameInConstantTime(
          seal, Seal(!leads_, heard_++, absl::StrCat(AsBytes(header), text)))) {
    return absl::UnavailableError("what it says was changed on the way");
  }
  *heard = true;
  if (header.code == 0) return text;
  return absl::Status(static_cast<absl::StatusCode>(header.code),
                      Printable(text));
}

}  // namespace castor
