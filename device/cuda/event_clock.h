// Converts times of CUDA events to the host's clock.
//
// CUDA reports the time between two events in milliseconds with 24 bits. So
// times are counted from an *anchor*, an event whose host time is known, and
// the anchor is renewed before the span gets too long to be exact.
#ifndef CASTOR_DEVICE_CUDA_EVENT_CLOCK_H_
#define CASTOR_DEVICE_CUDA_EVENT_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "device/cuda/api.h"

namespace castor::cuda {

// Threads: one at a time.
class EventClock {
 public:
  // A span of 2 s has a resolution of a quarter of a microsecond.
  static constexpr int64_t kRenewNs = 1'000'000'000;

  explicit EventClock(Api* api) : api_(api) {}
  ~EventClock();
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  // Measures the anchor's time on an idle stream: takes the shortest of several
  // tries.
  absl::Status Calibrate(Api::Stream stream,
                         const std::function<int64_t()>& now_ns);

  // Returns the time at which `event`, which is over, was reached. It lies in
  // [earliest_ns, latest_ns], by which the anchor is corrected. May keep the
  // event as the new anchor and leave the old one in its place. Returns
  // latest_ns on an error.
  int64_t TimeOf(std::atomic<Api::Event>& event, int64_t earliest_ns,
                 int64_t latest_ns);

 private:
  Api* const api_;
  Api::Event anchor_ = nullptr;
  int64_t anchor_ns_ = 0;
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_EVENT_CLOCK_H_
