#include "device/fence_board.h"

#include <algorithm>
#include <limits>

#include "base/spin_wait.h"

namespace castor {

FenceBoard::FenceBoard() {
  for (Stream& stream : streams_) {
    stream.next_wanted.store(std::numeric_limits<int64_t>::max());
  }
}

void FenceBoard::Advance(StreamId id, int64_t count) {
  Stream& stream = streams_[static_cast<int>(id)];
  // Sequentially consistent, see BlockUntilReached.
  stream.count.store(count);
  if (count >= stream.next_wanted.load()) {
    std::lock_guard<std::mutex> lock(mutex_);
    WakeReached();
  }
}

bool FenceBoard::Reached(const Fence& fence) const {
  for (int i = 0; i < kNumStreams; ++i) {
    const int64_t count = fence.count(static_cast<StreamId>(i));
    if (count > 0 && count > streams_[i].count.load()) return false;
  }
  return true;
}

bool FenceBoard::BlockUntilReached(const Fence& fence) {
  if (Reached(fence)) return false;
  if (SpinUntil([&] { return Reached(fence); })) return true;
  Sleeper self = {.fence = &fence, .reached = {}};
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.push_back(&self);
  // Sequentially consistent, as is the pair in Advance (count, then
  // next_wanted): either we see the count or its thread sees us.
  WakeReached();
  self.reached.wait(lock, [&] { return Reached(fence); });
  sleepers_.erase(std::find(sleepers_.begin(), sleepers_.end(), &self));
  return true;
}

void FenceBoard::WakeReached() {
  for (int i = 0; i < kNumStreams; ++i) {
    int64_t least = std::numeric_limits<int64_t>::max();
    const int64_t now = streams_[i].count.load();
    for (const Sleeper* sleeper : sleepers_) {
      const int64_t count = sleeper->fence->count(static_cast<StreamId>(i));
      if (count > now) least = std::min(least, count);
    }
    streams_[i].next_wanted.store(least);
  }
  for (Sleeper* sleeper : sleepers_) {
    if (Reached(*sleeper->fence)) sleeper->reached.notify_one();
  }
}

}  // namespace castor
