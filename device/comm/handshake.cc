#include "device/comm/handshake.h"

#include <netinet/in.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/comm/secret.h"

namespace castor {
namespace {

// The protocol's version, of all three.
constexpr uint32_t kClaimMagic = 0x43544832;
constexpr uint32_t kAnswerMagic = 0x43544132;
constexpr absl::string_view kListens = "listens", kConnects = "connects";

// A claim as it crosses the network, between equal machines; the random number
// follows.
struct ClaimWords {
  uint32_t magic;
  uint8_t role, lane;
  uint16_t zero;
  int32_t rank, to;
  SocketAddress listener;
};
constexpr size_t kClaimBytes = sizeof(ClaimWords) + kKeyBytes;
constexpr size_t kAnswerBytes = sizeof(kAnswerMagic) + 2 * kKeyBytes;

template <typename T>
std::string AsBytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

Handshake Handshake::Connecting(const HandshakeTerms& terms, std::string nonce,
                                const Claim& claim, std::string note) {
  CASTOR_CHECK(nonce.size() == kKeyBytes && note.size() == terms.note_bytes);
  Handshake made(terms, std::move(nonce));
  made.connects_ = true;
  made.claim_ = claim;
  made.note_ = std::move(note);
  ClaimWords words = {};
  words.magic = kClaimMagic;
  words.role = static_cast<uint8_t>(claim.role);
  words.lane = static_cast<uint8_t>(claim.lane);
  words.rank = claim.rank;
  words.to = claim.to;
  words.listener = claim.listener;
  made.claim_words_ = absl::StrCat(AsBytes(words), made.nonce_);
  made.words_ = made.claim_words_;
  made.state_ = State::kWantsAnswer;
  made.wanted_ = kAnswerBytes;
  return made;
}

Handshake Handshake::Listening(const HandshakeTerms& terms, std::string nonce,
                               int own_rank) {
  CASTOR_CHECK(nonce.size() == kKeyBytes);
  Handshake made(terms, std::move(nonce));
  made.own_rank_ = own_rank;
  made.wanted_ = kClaimBytes;
  return made;
}

std::string Handshake::TakeWords() { return std::exchange(words_, {}); }

bool Handshake::Hear(absl::string_view words) {
  CASTOR_CHECK(words.size() == wanted_);
  bool well = false;
  switch (state_) {
    case State::kWantsClaim:
      well = HearClaim(words);
      break;
    case State::kWantsAnswer:
      well = HearAnswer(words);
      break;
    case State::kWantsNote:
      well = HearNote(words);
      break;
    case State::kDone:
    case State::kFailed:
      break;
  }
  if (!well) {
    state_ = State::kFailed;
    wanted_ = 0;
    words_.clear();
  }
  return well;
}

bool Handshake::HearClaim(absl::string_view words) {
  ClaimWords said;
  std::memcpy(&said, words.data(), sizeof(said));
  const auto family = said.listener.storage.ss_family;
  if (said.magic != kClaimMagic ||
      said.role != static_cast<uint8_t>(terms_.role) || said.zero != 0 ||
      said.rank < 0 || said.to != own_rank_ ||
      (family != AF_UNSPEC && family != AF_INET && family != AF_INET6)) {
    return false;
  }
  claim_ = {.role = terms_.role,
            .lane = said.lane,
            .rank = said.rank,
            .to = said.to,
            .listener = said.listener};
  claim_words_ = std::string(words);
  other_nonce_ = std::string(words.substr(sizeof(said)));
  words_ = absl::StrCat(AsBytes(kAnswerMagic), nonce_, Proof(kListens, ""));
  state_ = State::kWantsNote;
  wanted_ = terms_.note_bytes + kKeyBytes;
  return true;
}

bool Handshake::HearAnswer(absl::string_view words) {
  uint32_t magic;
  std::memcpy(&magic, words.data(), sizeof(magic));
  if (magic != kAnswerMagic) return false;
  other_nonce_ = std::string(words.substr(sizeof(magic), kKeyBytes));
  if (!SameInConstantTime(words.substr(sizeof(magic) + kKeyBytes),
                          Proof(kListens, ""))) {
    return false;
  }
  words_ = absl::StrCat(note_, Proof(kConnects, note_));
  state_ = State::kDone;
  wanted_ = 0;
  return true;
}

bool Handshake::HearNote(absl::string_view words) {
  const absl::string_view note = words.substr(0, terms_.note_bytes);
  if (!SameInConstantTime(words.substr(note.size()), Proof(kConnects, note))) {
    return false;
  }
  note_ = std::string(note);
  state_ = State::kDone;
  wanted_ = 0;
  return true;
}

std::string Handshake::Proof(absl::string_view speaker,
                             absl::string_view note) const {
  // The claim has a fixed size and begins with the version; it ends with the
  // random number of the side that connects. The other parts, of any size, have
  // their sizes before them.
  return Hmac(terms_.key, absl::StrCat("castor ", speaker, "\n", claim_words_,
                                       connects_ ? other_nonce_ : nonce_,
                                       AsBytes(uint64_t{terms_.run_id.size()}),
                                       terms_.run_id,
                                       AsBytes(uint64_t{note.size()}), note));
}

std::string Handshake::SessionKey() const {
  CASTOR_CHECK(done());
  return Proof("talks", note_);
}

absl::Status ShakeHands(int fd, Handshake* handshake, int64_t until_ns) {
  while (true) {
    const std::string words = handshake->TakeWords();
    CASTOR_RETURN_IF_ERROR(WriteAll(fd, words.data(), words.size(), until_ns));
    if (handshake->wanted() == 0) return absl::OkStatus();
    std::string heard(handshake->wanted(), '\0');
    CASTOR_RETURN_IF_ERROR(ReadAll(fd, heard.data(), heard.size(), until_ns));
    if (!handshake->Hear(heard)) {
      return absl::FailedPreconditionError(
          "what answers does not prove that it belongs to this run");
    }
  }
}

}  // namespace castor
