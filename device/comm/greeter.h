// Shakes hands (handshake.h) with many at once: with those who connect to a
// listener, and with those to whom this rank has connected.
//
// A stranger (a port scanner, a rank of another run) who says nothing, too
// little or nonsense, at once or drop by drop, keeps nobody waiting: all are
// listened to at the same time, each has a few seconds in all, and where there
// are too many the oldest of the address that holds most gives way. Strangers
// are turned away without a word, and counted.
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
  // How long a client has from its connection to its proof, in all.
  static constexpr int64_t kPatienceNs = 10'000'000'000;

  // Listens as rank `own_rank`. `listener` is borrowed; negative: none.
  Greeter(int listener, HandshakeTerms terms, int own_rank,
          int64_t patience_ns = kPatienceNs)
      : listener_(listener),
        terms_(std::move(terms)),
        own_rank_(own_rank),
        patience_ns_(patience_ns) {}

  // Takes over a connection that this rank has made. It has no limit but
  // Next's: the other end may be busy.
  absl::Status Greet(Socket socket, const Claim& claim, std::string note);

  struct News {
    enum class What {
      kCame,      // a connection to the listener, which has shown its proof
      kAnswered,  // one from Greet, whose other end has
      kFailed,    // one from Greet, whose other end had none, or went
      kReadable,  // something is to be read elsewhere (or has ended)
    };
    What what = What::kReadable;
    Socket socket;            // of the first two
    Claim claim;              // of all but the last
    std::string note;         // of kCame
    std::string session_key;  // of the first two
    int also = -1;            // of kReadable: which of `also`
  };
  // Waits for the next; none: `until_ns` has come. Negative descriptors in
  // `also` are passed over.
  std::optional<News> Next(absl::Span<const int> also, int64_t until_ns);

  // How many were turned away.
  int64_t strangers() const { return strangers_; }
  // "; 2 connections that ...", or "" if none was turned away.
  std::string StrangersText() const;

 private:
  struct Pending {
    Socket socket;
    Handshake handshake;
    bool connected;
    std::string host;  // of who connected to the listener
    int64_t since_ns;
    int64_t until_ns;
    std::string heard;  // of the next words
  };
  // Goes on as far as there are words. False: it is of no use.
  bool Proceed(Pending& pending) const;
  void Accept(int64_t now_ns);
  bool IsFull() const;
  // Who gives way to another; none: all are young.
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
