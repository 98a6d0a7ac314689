// Lets processes know at once that one of them has died or given up.
//
// MPI does not report a peer's end until a launcher kills all ranks, and a rank
// that waits for a TCP message of a third rank does not notice it. So each rank
// holds one TCP connection to rank 0, which is silent as long as all is well.
// When a process ends, however it ends, its system closes the connection: rank
// 0 knows within milliseconds which rank it was and tells the others. If rank 0
// ends, all others see it themselves. A machine that vanishes is found by TCP's
// keep-alive, or by bytes that are not acknowledged, within ten seconds.
//
// When the ranks share a machine, rank 0 listens on loopback only; otherwise on
// all its addresses. It takes only connections that prove that they belong to
// the run (handshake.h), by a key that Create shares over MPI; adopted ones
// have done so.
//
// Threads: a thread of its own watches; any thread may call every method.
#ifndef CASTOR_DEVICE_COMM_WATCH_H_
#define CASTOR_DEVICE_COMM_WATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/socket.h"
#include "device/comm/watch_frames.h"

namespace castor {

struct Endpoint;  // where rank 0 listens

struct WatchOptions {
  // True if all ranks are on one machine and in one network namespace.
  bool same_machine = true;
  // The time in which ranks must find each other.
  int64_t connect_limit_ns = 30'000'000'000;
  // Called by the watching thread, on one of the remaining ranks, when a rank's
  // death is found: the launcher may end all ranks before they can report it
  // themselves. Null: writes a line to standard error.
  std::function<void(absl::string_view text)> on_death;
  // Called once, by any thread, when Failure() is no longer OK.
  std::function<void()> on_failure;
  // On SIGTERM, which launchers send to all others when a rank has died, gives
  // the process a moment to learn of the death and to end by itself, then ends
  // it. Only if the program has no handler of its own.
  bool take_sigterm = true;
};

// A rank to which this one is already connected.
struct WatchPeer {
  int rank = 0;
  Socket socket;    // non-blocking
  std::string who;  // "rank 2 (process 4711 on node7)"
};

class Watch {
 public:
  // Copies rank 0's bytes to all ranks.
  using Share = absl::FunctionRef<absl::Status(void* data, int64_t bytes)>;

  // Connects the ranks, which call it together. Unavailable: the ranks could
  // not connect.
  static absl::StatusOr<std::unique_ptr<Watch>> Create(
      int rank, int world_size, const WatchOptions& options, Share share);

  // Watches over existing connections: to all others on rank 0, to rank 0 on
  // the others.
  static absl::StatusOr<std::unique_ptr<Watch>> Adopt(
      int rank, int world_size, const WatchOptions& options,
      std::vector<WatchPeer> peers);

  // Looks like a death to the others unless Leave was called.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Tells all ranks of a failure. On each rank only the first known failure
  // counts.
  void Announce(const absl::Status& reason);

  absl::Status Failure() const;
  // True if Failure() is not OK. Cheap.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // Says that all ranks have agreed to end: from now on no rank's end is a
  // death.
  void Leave();

 private:
  struct Peer {
    int rank = 0;
    Socket socket;
    bool left = false;
    bool silent = false;  // the connection failed, not closed
    std::string who;      // "rank 2 (process 4711 on node7)"
    WatchFrameReader received;
  };

  Watch(int rank, int world_size, const WatchOptions& options)
      : rank_(rank), world_size_(world_size), options_(options) {}

  absl::Status Listen(Endpoint* endpoint);
  absl::Status AcceptAll(const Endpoint& endpoint);
  absl::Status Connect(const Endpoint& endpoint);
  absl::Status Start();
  void Loop();
  // Reads from a peer whose socket is readable. Returns false at its end.
  bool Read(Peer& peer);
  void HandleFrame(Peer& peer, const WatchFrame& frame);
  void HandleEnd(Peer& peer);
  bool Record(const absl::Status& reason);
  void SendToAll(WatchFrameKind kind, const absl::Status& status,
                 int except_rank);

  const int rank_;
  const int world_size_;
  const WatchOptions options_;
  Socket listener_;
  Socket wake_;  // an event: stop, or SIGTERM
  bool has_sigterm_ = false;
  std::vector<Peer> peers_;  // rank 0: all others; otherwise rank 0
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> left_{false};

  std::mutex send_mutex_;
  mutable std::mutex mutex_;
  absl::Status failure_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_WATCH_H_
