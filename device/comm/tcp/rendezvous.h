// Connects processes that know only their rank and rank 0's address, each with
// each.
//
//   1. Rank 0 listens at the master's address. Every other rank connects to it,
//      as often as it takes until rank 0 is there; both prove that they know
//      the run's secret and id (handshake.h), and the rank says who it is and
//      where it listens itself.
//   2. When all have come, rank 0 tells everyone the addresses of all, and a
//      number from which, with the secret, the lanes' key is made. Ranks that
//      do not fit (a rank twice, another world size) end the meeting; a
//      connection without proof is turned away and counted.
//   3. Each connects to all ranks before it, once for each lane, and takes the
//      connections of those behind it; both ends prove again, with that key.
//   4. Each tells rank 0 its result, and rank 0 tells all: either all ranks are
//      connected or none, and every rank has the same reason. The messages of 2
//      and 4 are sealed (sealed_words.h).
//
// Without a secret a proof shows only the run's id, which can be guessed; then,
// if all ranks are on one machine, connections from others are refused.
//
// Rank 0 listens at the address that the master's name means to it; on all
// interfaces where it has no such address, the name means several, or it means
// loopback although ranks are elsewhere. Another rank listens at the address of
// its connection to rank 0. Where that is loopback's the rank shares rank 0's
// machine, and is reached where rank 0 is.
//
// Threads: one. Blocks.
#ifndef CASTOR_DEVICE_COMM_TCP_RENDEZVOUS_H_
#define CASTOR_DEVICE_COMM_TCP_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/comm/launch_env.h"
#include "device/comm/socket.h"
#include "device/comm/transport.h"
#include "device/comm/watch.h"

namespace castor {

inline constexpr int kNumLanes = 2;

struct Meeting {
  std::vector<std::string> who;     // by rank: "rank 2 (process 4711 on node7)"
  std::vector<WatchPeer> controls;  // to rank 0; on rank 0 to the others
  // The lanes' connections, indexed by rank * kNumLanes + lane; this rank's are
  // empty.
  std::vector<Socket> lanes;
  // On rank 0 only: true if ranks come from other machines; the number of
  // connections that were turned away, and that as a text (Greeter).
  bool several_machines = false;
  int64_t strangers = 0;
  std::string strangers_text;
};

// Connects the ranks. `launch.secret` is the secret. InvalidArgument: `launch`
// has no master's address, or the ranks contradict each other (both are named).
// Unavailable: a rank did not come within the limit (it is named), or cannot be
// reached. FailedPrecondition: the listener at the master's address has no
// proof.
absl::StatusOr<Meeting> Meet(const LaunchEnv& launch, int64_t connect_limit_ns);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TCP_RENDEZVOUS_H_
