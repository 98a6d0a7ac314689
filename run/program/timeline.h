// Collects the observers' events, which say what the device's streams did and
// when, and what collectives they ran, and hands them on to a second observer
// at once.
#ifndef CASTOR_RUN_PROGRAM_TIMELINE_H_
#define CASTOR_RUN_PROGRAM_TIMELINE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/comm/communicator.h"
#include "device/device.h"
#include "run/run_observer.h"
#include "tracer/events.h"

namespace castor {

// One of them, as a trace has it too.
struct TimelineEvent {
  WorkRecord work;  // of a wait: who waits, and from when until when
  bool wait = false;
  WaitRecord::Untils until = {};              // of a wait
  std::optional<NetworkRecord> network = {};  // of a collective
  int late_rank = -1;  // whom a collective waited for; -1: for nobody

  StreamId stream() const { return static_cast<StreamId>(work.stream); }
};

// Thread-safe: events come from the streams' threads.
class Timeline final : public DeviceObserver, public CommunicatorObserver {
 public:
  void OnWork(StreamId stream, int64_t count, int64_t tag, int64_t start_ns,
              int64_t end_ns) override;
  void OnWait(StreamId stream, int64_t count, int64_t tag, const Fence& until,
              int64_t start_ns, int64_t end_ns) override;
  // Before OnWork of the same item; on a GPU's stream maybe long before.
  void OnCollective(const CollectiveRecord& record) override {
    std::lock_guard<std::mutex> lock(collectives_mutex_);
    collectives_.push_back(record);
  }

  // Null for none. What it was before may be called until the work that is
  // queued now is over.
  void SetNext(RunObserver* next) { next_.store(next); }

  // All events since the last call, each stream's in order.
  std::vector<TimelineEvent> Take();

 private:
  struct PerStream {
    std::mutex mutex;
    std::vector<TimelineEvent> events;
  };
  void Add(TimelineEvent event) {
    PerStream& own = streams_[event.work.stream];
    std::lock_guard<std::mutex> lock(own.mutex);
    own.events.push_back(std::move(event));
  }

  std::array<PerStream, kNumStreams> streams_;
  std::atomic<RunObserver*> next_{nullptr};
  // The records of the network's items that are not over yet, in their order.
  std::mutex collectives_mutex_;
  std::deque<CollectiveRecord> collectives_;
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_TIMELINE_H_
