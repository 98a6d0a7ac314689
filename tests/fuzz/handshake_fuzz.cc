// Any words from the other end of a handshake: refused, unless it has the key,
// and then the claim and the note come out as they were said.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "device/comm/handshake.h"
#include "device/comm/secret.h"

namespace {

using namespace castor;  // NOLINT

// Takes what it is given until it wants no more.
void Feed(Handshake& handshake, absl::string_view words) {
  while (handshake.wanted() > 0 && words.size() >= handshake.wanted()) {
    const size_t wanted = handshake.wanted();
    const bool well = handshake.Hear(words.substr(0, wanted));
    CASTOR_CHECK(well || handshake.wanted() == 0);
    handshake.TakeWords();
    words.remove_prefix(wanted);
  }
  CASTOR_CHECK(!handshake.done());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view words(reinterpret_cast<const char*>(data) + 1,
                                size - 1);
  const HandshakeTerms terms = {
      .key = "key",
      .run_id = "run",
      .role = static_cast<ConnectionRole>(1 + data[0] % 3),
      .note_bytes = 8};
  const std::string nonce(kKeyBytes, 'l');
  Handshake listening = Handshake::Listening(terms, nonce, 0);
  Feed(listening, words);
  Claim claim;
  claim.role = terms.role;
  Handshake connecting = Handshake::Connecting(
      terms, std::string(kKeyBytes, 'c'), claim, "12345678");
  connecting.TakeWords();
  Feed(connecting, words);

  // One who has the key, and claims and notes what it likes.
  std::memcpy(&claim.listener, words.data(),
              std::min(words.size(), sizeof(claim.listener)));
  claim.rank = words.empty() ? 0 : words.back();
  claim.lane = data[0];
  std::string note(words.substr(0, 8));
  note.resize(8);
  Handshake friendly =
      Handshake::Connecting(terms, std::string(kKeyBytes, 'f'), claim, note);
  Handshake other = Handshake::Listening(terms, nonce, 0);
  const auto family = claim.listener.storage.ss_family;
  const bool in_order =
      claim.rank >= 0 &&
      (family == AF_UNSPEC || family == AF_INET || family == AF_INET6);
  CASTOR_CHECK(other.Hear(friendly.TakeWords()) == in_order);
  if (!in_order) return 0;
  CASTOR_CHECK(friendly.Hear(other.TakeWords()));
  CASTOR_CHECK(other.Hear(friendly.TakeWords()));
  CASTOR_CHECK(other.note() == note && other.claim().rank == claim.rank &&
               other.claim().lane == claim.lane);
  CASTOR_CHECK(other.claim().listener.ToString().size() < 80);
  return 0;
}
