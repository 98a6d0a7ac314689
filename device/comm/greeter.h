// Runs handshakes (handshake.h) with many peers at once: those that connect to
// a listener, and those to which this rank has connected.
//
// A stranger is a peer without proof (a port scanner, a rank of another run). A
// stranger that sends nothing, too little or nonsense, at once or slowly,
// delays no other: all are served concurrently, each has a few seconds in all,
// and when there are too many the oldest connection of the address with the
// most is dropped. Strangers are turned away without an answer, and counted.
//
// Threads: one.
#ifndef CASTOR_DEVICE_COMM_GREETER_H_
#define CASTOR_DEVICE_COMM_GREETER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "device/comm/handshake.h"
#include "device/comm/socket.h"

namespace castor {

class Greeter {
 public:
  // The time that a client has from its connection to its proof.
  static constexpr int64_t kPatienceNs = 10'000'000'000;

  // Listens as rank `own_rank`. `listener` is borrowed; negative: none.
  Greeter(int listener, HandshakeTerms terms, int own_rank,
          int64_t patience_ns = kPatienceNs)
      : listener_(listener),
        terms_(std::move(terms)),
        own_rank_(own_rank),
        patience_ns_(patience_ns) {}

  // Takes over a connection that this rank has made. Only Next's time limit
  // applies to it, since the other end may be busy.
  absl::Status Greet(Socket socket, const Claim& claim, std::string note);

  struct News {
    enum class What {
      kCame,      // a connection to the listener, which has shown its proof
      kAnswered,  // one from Greet, whose other end has proven itself
      kFailed,    // one from Greet, without proof or lost
      kReadable,  // a descriptor of `also` is readable, or has ended
    };
    What what = What::kReadable;
    Socket socket;            // of the first two
    Claim claim;              // of all but the last
    std::string note;         // of kCame
    std::string session_key;  // of the first two
    int also = -1;            // of kReadable: which of `also`
  };
  // Waits for the next event; nullopt: `until_ns` has come. Negative
  // descriptors in `also` are ignored.
  std::optional<News> Next(absl::Span<const int> also, int64_t until_ns);

  // The number of connections that were turned away.
  int64_t strangers() const { return strangers_; }
  // "; 2 connections that ...", or "" if none was turned away.
  std::string StrangersText() const;

 private:
  struct Pending {
    Socket socket;
    Handshake handshake;
    bool connected;
    std::string host;  // of the peer that connected to the listener
    int64_t since_ns;
    int64_t until_ns;
    std::string heard;  // of the next words
  };
  // Goes on with the handshake as far as words have come. Returns false if it
  // failed.
  bool Proceed(Pending& pending) const;
  void Accept(int64_t now_ns);
  bool IsFull() const;
  // Returns the connection to drop for a new one; nullopt if all are young.
  std::optional<size_t> Victim(int64_t now_ns) const;
  void TurnAway(const Pending& pending);

  const int listener_;
  const HandshakeTerms terms_;
  const int own_rank_;
  const int64_t patience_ns_;
  std::deque<Pending> pending_;
  std::deque<News> news_;
  int64_t strangers_ = 0;
  std::string last_stranger_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_GREETER_H_
