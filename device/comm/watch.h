// How processes learn at once that one of them has died or given up.
//
// MPI says nothing of a peer's end until a launcher kills everybody, and who
// only waits for a message over TCP hears of nothing. So each rank holds one
// TCP connection to rank 0, over which nothing is said as long as all is well.
// When a process ends, however it ends, its system closes the connection: rank
// 0 knows within milliseconds which rank it was and tells the others. If rank 0
// ends, all others see it themselves. A machine that vanishes is found by TCP's
// keep-alive, or by words that are not acknowledged, within ten seconds.
//
// When the ranks share a machine, rank 0 listens on loopback only; otherwise on
// all its addresses. It takes only connections that prove to be of the run
// (handshake.h): by a key that Create shares over MPI, or as they were adopted.
//
// Threads: a thread of its own does the watching; every method may be called by
// any thread.
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
  // All ranks on one machine and in one network namespace.
  bool same_machine = true;
  // How long ranks may take to find each other.
  int64_t connect_limit_ns = 30'000'000'000;
  // Told of a rank's death as it is found, by the watching thread, on one of
  // the ranks that are left: the launcher may end them all before they can say
  // it themselves. Null: a line to standard error says it.
  std::function<void(absl::string_view text)> on_death;
  // Told that Failure() is no longer OK, once, by whichever thread found out.
  std::function<void()> on_failure;
  // On SIGTERM, which launchers send to all others when a rank has died, give
  // the process a moment to learn of the death and to end by itself; then end
  // it. Only where the program has no handler of its own.
  bool take_sigterm = true;
};

// A rank to which this one is connected already.
struct WatchPeer {
  int rank = 0;
  Socket socket;    // non-blocking
  std::string who;  // "rank 2 (process 4711 on node7)"
};

class Watch {
 public:
  // Gives rank 0's bytes to all ranks.
  using Share = absl::FunctionRef<absl::Status(void* data, int64_t bytes)>;

  // All ranks call it together. Unavailable: the ranks could not connect.
  static absl::StatusOr<std::unique_ptr<Watch>> Create(
      int rank, int world_size, const WatchOptions& options, Share share);

  // Over connections that are there: to all others on rank 0, to rank 0 on the
  // others.
  static absl::StatusOr<std::unique_ptr<Watch>> Adopt(
      int rank, int world_size, const WatchOptions& options,
      std::vector<WatchPeer> peers);

  // Without Leave before it, the others see a death.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Tells all ranks. Only the first failure known to a rank counts there.
  void Announce(const absl::Status& reason);

  absl::Status Failure() const;
  // Failure() is not OK. Cheap.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // All ranks have agreed to end: from now on nobody's end is a death.
  void Leave();

 private:
  struct Peer {
    int rank = 0;
    Socket socket;
    bool left = false;
    bool silent = false;  // has not ended, as far as is known
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
  // Reads from a peer whose socket has something to say; false: it is over.
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
  Socket wake_;  // an event: stop, or SIGTERM has come
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
