// What the device's streams did and when: collects the observer's events, and
// hands them on to a second observer at once.
#ifndef CASTOR_RUNTIME_TIMELINE_H_
#define CASTOR_RUNTIME_TIMELINE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "tracer/work_tag.h"

namespace castor {

struct TimelineEvent {
  StreamId stream;
  WorkTag tag;
  bool wait = false;  // the stream stood still until its fence was reached
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Thread-safe: events come from the streams' threads.
class Timeline final : public DeviceObserver {
 public:
  void OnWork(StreamId stream, int64_t count, int64_t tag, int64_t start_ns,
              int64_t end_ns) override {
    Add({stream, WorkTag::Unpack(tag), false, start_ns, end_ns});
    DeviceObserver* const next = next_.load();
    if (next != nullptr) next->OnWork(stream, count, tag, start_ns, end_ns);
  }
  void OnWait(StreamId stream, int64_t count, int64_t tag, const Fence& until,
              int64_t start_ns, int64_t end_ns) override {
    Add({stream, WorkTag::Unpack(tag), true, start_ns, end_ns});
    DeviceObserver* const next = next_.load();
    if (next != nullptr) {
      next->OnWait(stream, count, tag, until, start_ns, end_ns);
    }
  }

  // Null for none. What it was before may be called until the work that is
  // queued now is over.
  void SetNext(DeviceObserver* next) { next_.store(next); }

  // All events since the last call, each stream's in order.
  std::vector<TimelineEvent> Take();

 private:
  struct PerStream {
    std::mutex mutex;
    std::vector<TimelineEvent> events;
  };
  void Add(const TimelineEvent& event) {
    PerStream& own = streams_[static_cast<int>(event.stream)];
    std::lock_guard<std::mutex> lock(own.mutex);
    own.events.push_back(event);
  }

  std::array<PerStream, kNumStreams> streams_;
  std::atomic<DeviceObserver*> next_{nullptr};
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_TIMELINE_H_
