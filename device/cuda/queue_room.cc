#include "device/cuda/queue_room.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/status_macros.h"

namespace castor::cuda {
namespace {

// Between two looks at an event. The queue is nearly full meanwhile, so that
// the GPU does not run dry.
constexpr std::chrono::microseconds kSleep(20);

}  // namespace

QueueRoom::~QueueRoom() {
  for (const Mark& mark : marks_) {
    if (mark.event != nullptr) api_->DestroyEvent(mark.event);
  }
}

absl::Status QueueRoom::Open(Api::Stream stream) {
  // Entries that no mark lies behind, and those that room is made for, fit:
  // there is always a mark to wait for where there is no room.
  static_assert(kApart + 2 * kMostAtOnce + 1 <= kMostQueued);
  stream_ = stream;
  for (Mark& mark : marks_) {
    CASTOR_ASSIGN_OR_RETURN(mark.event, api_->CreateEvent());
  }
  return absl::OkStatus();
}

absl::Status QueueRoom::Await(int64_t count) {
  count = std::min(count, kMostAtOnce);
  if (queued_ - marked_ >= kApart) CASTOR_RETURN_IF_ERROR(SetMark());
  // One place is left for the next mark.
  while (queued_ + count + 1 - over_ > kMostQueued) {
    const Mark& next = mark(first_mark_);
    bool reached = false;
    CASTOR_RETURN_IF_ERROR(api_->Query(next.event, &reached));
    if (!reached) {
      std::this_thread::sleep_for(kSleep);
      continue;
    }
    over_ = next.entries;
    ++first_mark_;
  }
  queued_ += count;
  return absl::OkStatus();
}

absl::Status QueueRoom::SetMark() {
  Mark& next = mark(end_mark_);
  CASTOR_RETURN_IF_ERROR(api_->Record(next.event, stream_));
  next.entries = marked_ = ++queued_;
  ++end_mark_;
  return absl::OkStatus();
}

}  // namespace castor::cuda
