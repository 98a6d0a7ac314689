// Messages between ranks that are processes of any launcher, over TCP.
//
// Each pair of ranks has one connection for each lane, so lanes do not wait for
// each other. A message is its size (8 bytes) and its bytes, straight from the
// sender's buffer and into the receiver's; nothing is staged, and bytes without
// a receive yet wait in the system's buffers. The thread that polls the
// transport makes the progress; a send is over when the system has taken the
// last byte.
//
// Failures: the connections to rank 0 by which the ranks met (rendezvous.h)
// stay, and a Watch (watch.h) listens to them from a thread of its own, so a
// death is known within milliseconds, also between collectives. A machine that
// vanishes, or whose network to rank 0 is cut, is found within ten seconds.
#ifndef CASTOR_DEVICE_COMM_TCP_TCP_TRANSPORT_H_
#define CASTOR_DEVICE_COMM_TCP_TCP_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/launch_env.h"
#include "device/comm/transport.h"

namespace castor {

struct TcpOptions {
  // The time that ranks wait for those that were started later.
  int64_t connect_limit_ns = 30'000'000'000;
  // Called on one of the remaining ranks with a rank's death; see watch.h. By
  // default writes a line to standard error.
  std::function<void(absl::string_view text)> on_death;
  bool take_sigterm = true;
};

// Makes this process's transport. All ranks call it together; it waits for
// them. InvalidArgument: a limit that is not positive, no master's address,
// ranks that contradict each other; a secret that cannot be read, also by other
// codes (secret.h). AlreadyExists: the master's port is taken. Unavailable: the
// ranks cannot reach each other. Rank 0 writes to standard error how many
// strangers it turned away, and warns of ranks on several machines without a
// secret.
absl::StatusOr<std::unique_ptr<Transport>> JoinTcp(const LaunchEnv& launch,
                                                   const TcpOptions& options);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TCP_TCP_TRANSPORT_H_
