// How two ends of a connection show each other that they belong to one run,
// before anything else is said: what they say, without how it is carried.
//
//   1. Who connects says what it claims to be (a Claim) and a random number.
//   2. Who listens answers with a random number of its own and its proof.
//   3. Who connects checks that, and sends a note and its own proof.
//
// A proof is the HMAC-SHA256, under the run's key, of: the protocol's version,
// which side speaks, the claim (role, ranks, lane, the address at which who
// connects listens itself), both random numbers, the run's id and, in the
// third, the note. So nothing that was heard before, or on another connection,
// or from the other side, is a proof here; and nothing is told to somebody who
// has shown none but a rank's number and its address. Proofs are compared in
// constant time.
//
// States of a Handshake:
//
//   connecting: says 1, wants 2 -> says 3, done
//   listening:  wants 1 -> says 2, wants 3 -> done
//
// Whatever is wrong ends it for good (Hear gives false): it says nothing more.
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

// What a connection is for.
enum class ConnectionRole : uint8_t { kControl = 1, kLane = 2, kWatch = 3 };

struct Claim {
  ConnectionRole role = ConnectionRole::kControl;
  int lane = 0;            // of a lane
  int rank = 0;            // who connects
  int to = 0;              // for whom it takes the one who listens
  SocketAddress listener;  // where who connects listens; unknown: nowhere
};

// What both ends must have in common.
struct HandshakeTerms {
  std::string key;
  std::string run_id;
  ConnectionRole role = ConnectionRole::kControl;
  size_t note_bytes = 0;
};

class Handshake {
 public:
  // The side of the one who connects; its note has terms.note_bytes. `nonce`:
  // kKeyBytes that were never used (secret.h).
  static Handshake Connecting(const HandshakeTerms& terms, std::string nonce,
                              const Claim& claim, std::string note);
  // The side of the one who listens, as rank `own_rank`.
  static Handshake Listening(const HandshakeTerms& terms, std::string nonce,
                             int own_rank);

  // What is to be sent now; "" for nothing.
  std::string TakeWords();
  // How many bytes are to be heard next; 0: nothing more.
  size_t wanted() const { return wanted_; }
  // Takes wanted() bytes. False: the speaker does not belong to the run.
  bool Hear(absl::string_view words);

  // The other end has shown its proof.
  bool done() const { return state_ == State::kDone; }

  // What who connects claimed, and its note: proven once it is done.
  const Claim& claim() const { return claim_; }
  const std::string& note() const { return note_; }
  // A key for this connection alone, once it is done.
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
  // The proof that `speaker` gives, who adds `note`.
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

// Carries one out over a non-blocking socket and waits for it. Unavailable: the
// other end went, or was too slow. FailedPrecondition: it has no proof.
absl::Status ShakeHands(int fd, Handshake* handshake, int64_t until_ns);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_HANDSHAKE_H_
