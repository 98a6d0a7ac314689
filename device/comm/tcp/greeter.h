// Takes connections, and of each its first words, which say who it is.
//
// A stranger (a port scanner, a rank of another run) who says nothing, too
// little or nonsense keeps nobody waiting: all are listened to at once, each
// for a few seconds.
#ifndef CASTOR_DEVICE_COMM_TCP_GREETER_H_
#define CASTOR_DEVICE_COMM_TCP_GREETER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "device/comm/socket.h"

namespace castor {

class Greeter {
 public:
  // A greeting has `greeting_bytes`. `listener` is borrowed.
  Greeter(int listener, size_t greeting_bytes)
      : listener_(listener), greeting_bytes_(greeting_bytes) {}

  struct News {
    // A connection that has said its greeting, or
    Socket socket;
    std::string greeting;
    // which of `also` has something to read (or has ended).
    int readable = -1;
  };
  // Waits for the next; none: `until_ns` has come. Negative descriptors in
  // `also` are passed over.
  std::optional<News> Next(absl::Span<const int> also, int64_t until_ns);

 private:
  struct Pending {
    Socket socket;
    std::string greeting;
    int64_t until_ns;
  };
  // False: it is of no use.
  bool Read(Pending& pending) const;

  const int listener_;
  const size_t greeting_bytes_;
  std::deque<Pending> pending_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TCP_GREETER_H_
