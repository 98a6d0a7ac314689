// The handshake in which two ends of a connection prove to each other that they
// belong to one run, before they say anything else. This class has the
// messages, not their transport.
//
//   1. The end that connects sends what it claims to be (a Claim) and a random
//   number.
//   2. The end that listens answers with a random number of its own and its
//   proof.
//   3. The end that connects checks that, and sends a note and its own proof.
//
// A proof is the HMAC-SHA256, under the run's key, of: the protocol's version,
// which side speaks, the claim (role, ranks, lane, the address at which the end
// that connects listens itself), both random numbers, the run's id and, in the
// third, the note. So nothing that was sent before, on another connection or by
// the other side can serve as a proof here; and a peer without proof learns no
// more than a rank's number and its address. Proofs are compared in constant
// time.
//
// States of a Handshake:
//
//   connecting: says 1, wants 2 -> says 3, done
//   listening:  wants 1 -> says 2, wants 3 -> done
//
// Any error ends the handshake for good (Hear returns false): it says nothing
// more.
//
// Threads: none; a value.
#ifndef CASTOR_DEVICE_COMM_HANDSHAKE_H_
#define CASTOR_DEVICE_COMM_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "device/comm/socket.h"

namespace castor {

// The purpose of a connection.
enum class ConnectionRole : uint8_t { kControl = 1, kLane = 2, kWatch = 3 };

struct Claim {
  ConnectionRole role = ConnectionRole::kControl;
  int lane = 0;            // of a lane
  int rank = 0;            // of the end that connects
  int to = 0;              // the rank that it takes the listener for
  SocketAddress listener;  // where the connecting end listens, if known
};

// The terms that both ends must have in common.
struct HandshakeTerms {
  std::string key;
  std::string run_id;
  ConnectionRole role = ConnectionRole::kControl;
  size_t note_bytes = 0;
};

class Handshake {
 public:
  // Makes the side that connects; its note has terms.note_bytes. `nonce`:
  // kKeyBytes that were never used (secret.h).
  static Handshake Connecting(const HandshakeTerms& terms, std::string nonce,
                              const Claim& claim, std::string note);
  // Makes the side that listens, as rank `own_rank`.
  static Handshake Listening(const HandshakeTerms& terms, std::string nonce,
                             int own_rank);

  // Returns the bytes to send now; "" for none.
  std::string TakeWords();
  // The number of bytes to receive next; 0: no more.
  size_t wanted() const { return wanted_; }
  // Takes wanted() bytes. Returns false if the other end does not belong to the
  // run.
  bool Hear(absl::string_view words);

  // True if the other end has shown its proof.
  bool done() const { return state_ == State::kDone; }

  // The claim and the note of the end that connects; proven once done().
  const Claim& claim() const { return claim_; }
  const std::string& note() const { return note_; }
  // Returns a key for this connection only, once done().
  std::string SessionKey() const;

 private:
  enum class State : uint8_t {
    kWantsClaim,
    kWantsAnswer,
    kWantsNote,
    kDone,
    kFailed
  };

  Handshake(const HandshakeTerms& terms, std::string nonce)
      : terms_(terms), nonce_(std::move(nonce)) {}

  bool HearClaim(absl::string_view words);
  bool HearAnswer(absl::string_view words);
  bool HearNote(absl::string_view words);
  // Returns the proof of `speaker`, with `note`.
  std::string Proof(absl::string_view speaker, absl::string_view note) const;

  HandshakeTerms terms_;
  std::string nonce_;  // this end's
  std::string other_nonce_;
  bool connects_ = false;
  int own_rank_ = 0;
  State state_ = State::kWantsClaim;
  size_t wanted_ = 0;
  std::string words_;
  std::string claim_words_;  // as they crossed the network
  Claim claim_;
  std::string note_;
};

// Carries a handshake out over a non-blocking socket and waits for its end.
// Unavailable: the other end is gone, or was too slow. FailedPrecondition: it
// has no proof.
absl::Status ShakeHands(int fd, Handshake* handshake, int64_t until_ns);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_HANDSHAKE_H_
