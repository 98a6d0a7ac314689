#include "device/cuda/event_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status_macros.h"

namespace castor::cuda {

EventClock::~EventClock() {
  if (anchor_ != nullptr) api_->DestroyEvent(anchor_);
}

absl::Status EventClock::Calibrate(Api::Stream stream,
                                   const std::function<int64_t()>& now_ns) {
  constexpr int kTries = 8;
  CASTOR_ASSIGN_OR_RETURN(anchor_, api_->CreateEvent());
  // Each try records the same event anew. The last one is the anchor, unless
  // it took longer than the shortest by far; then there is another.
  int64_t shortest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 4 * kTries; ++i) {
    const int64_t before = now_ns();
    CASTOR_RETURN_IF_ERROR(api_->Record(anchor_, stream));
    bool over = false;
    while (!over) CASTOR_RETURN_IF_ERROR(api_->Query(anchor_, &over));
    const int64_t after = now_ns();
    anchor_ns_ = before + (after - before) / 2;
    if (i >= kTries && after - before <= shortest + shortest / 4) break;
    shortest = std::min(shortest, after - before);
  }
  return absl::OkStatus();
}

int64_t EventClock::TimeOf(std::atomic<Api::Event>& event, int64_t earliest_ns,
                           int64_t latest_ns) {
  float ms = 0;
  const Api::Event reached = event.load(std::memory_order_relaxed);
  if (!api_->ElapsedMs(anchor_, reached, &ms).ok() || !std::isfinite(ms)) {
    return latest_ns;
  }
  const int64_t elapsed_ns = std::llround(static_cast<double>(ms) * 1e6);
  int64_t time_ns = anchor_ns_ + elapsed_ns;
  if (time_ns > latest_ns) {
    anchor_ns_ -= time_ns - latest_ns;
    time_ns = latest_ns;
  } else if (time_ns < earliest_ns) {
    anchor_ns_ += earliest_ns - time_ns;
    time_ns = earliest_ns;
  }
  if (elapsed_ns >= kRenewNs) {
    event.store(anchor_, std::memory_order_relaxed);
    anchor_ = reached;
    anchor_ns_ = time_ns;
  }
  return time_ns;
}

}  // namespace castor::cuda
