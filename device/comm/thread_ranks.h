// Ranks as threads of one process, for tests of code that runs on several
// ranks, also under sanitizers. Real messages go between real threads (each
// rank has a Device of its own), with one copy per message, made by the
// receiver.
//
// Faults can be injected: a rank that is slow, that dies in the middle of a
// collective, or whose messages no longer get through.
#ifndef CASTOR_DEVICE_COMM_THREAD_RANKS_H_
#define CASTOR_DEVICE_COMM_THREAD_RANKS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/comm/communicator.h"
#include "device/comm/device_parts.h"
#include "device/comm/transport.h"

namespace castor {

struct RankFaults {
  int64_t delay_ns = 0;  // before each message that the rank sends
  // The number of messages sent before the fault; -1: never. A rank that dies
  // fails its own calls, and all others know at once, as of the end of a
  // process. A rank whose messages are lost looks hung to the others.
  int64_t die_after = -1;
  int64_t lose_after = -1;
};

// The state that the ranks of one group share. Thread-safe.
class ThreadGroup : public std::enable_shared_from_this<ThreadGroup> {
 public:
  static std::shared_ptr<ThreadGroup> Create(int world_size);

  int world_size() const { return static_cast<int>(ranks_.size()); }
  void SetFaults(int rank, const RankFaults& faults);
  // Ends the rank as kill -9 ends a process.
  void Kill(int rank);

  // Makes the transport of `rank`; at most once for each rank.
  std::unique_ptr<Transport> NewTransport(int rank);

 private:
  friend class ThreadTransport;

  struct Message {
    const std::byte* data;
    int64_t bytes;
    int64_t token;
  };
  struct Wanted {
    std::byte* data;
    int64_t bytes;
    int64_t token;
  };
  // The messages between one sender and one receiver on one lane.
  struct Mailbox {
    std::deque<Message> sent;
    std::deque<Wanted> wanted;
  };
  struct Rank {
    std::condition_variable news;
    std::vector<int64_t> done;
    RankFaults faults;
    int64_t messages_sent = 0;
    int copies = 0;  // running, out of this rank's memory
    bool taken = false;
    bool dead = false;
  };

  explicit ThreadGroup(int world_size);
  // Call these with mutex_ held:
  Mailbox& mailbox(int from, int to, Lane lane);
  void KillLocked(int rank);
  void FailLocked(const absl::Status& reason);
  absl::Status FailureOf(int rank) const;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Mailbox> mailboxes_;
  absl::Status failure_;
};

// Makes the communicator of rank `rank` of `group`, on a device of its own.
absl::StatusOr<std::unique_ptr<Communicator>> MakeThreadRank(
    std::shared_ptr<ThreadGroup> group, int rank, Device* device,
    const CommunicatorOptions& options,
    std::unique_ptr<DeviceParts> gpu_parts = nullptr);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_THREAD_RANKS_H_
