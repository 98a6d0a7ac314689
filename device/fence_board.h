// Keeps the progress of each stream, and wakes threads that wait for it.
//
// Threads: one thread at a time advances a stream; everything else from any.
#ifndef CASTOR_DEVICE_FENCE_BOARD_H_
#define CASTOR_DEVICE_FENCE_BOARD_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/fence.h"

namespace castor {

class FenceBoard {
 public:
  FenceBoard();
  FenceBoard(const FenceBoard&) = delete;
  FenceBoard& operator=(const FenceBoard&) = delete;

  // Says that the stream's first `count` items are over; `count` never falls.
  // Memory written before is visible to threads that find the fence reached.
  void Advance(StreamId stream, int64_t count);

  int64_t count(StreamId stream) const {
    return streams_[static_cast<int>(stream)].count.load(
        std::memory_order_acquire);
  }
  bool Reached(const Fence& fence) const;
  // Blocks until the fence is reached. Returns false if it was reached already.
  bool BlockUntilReached(const Fence& fence);

 private:
  struct alignas(64) Stream {
    std::atomic<int64_t> count{0};
    // The least count that a sleeper waits for, above the count at the last
    // check.
    std::atomic<int64_t> next_wanted{0};
  };
  // A thread that sleeps until a fence is reached. It is woken once, when it
  // is: a wake-up per piece of work would take the processors from the work.
  struct Sleeper {
    const Fence* fence;
    std::condition_variable reached;
  };
  // Computes next_wanted from sleepers_, and wakes those whose fence is
  // reached. mutex_ must be held. It does both, since a count that is found
  // reached here is no longer wanted, so the thread that reached it may wake no
  // sleeper.
  void WakeReached();

  std::array<Stream, kNumStreams> streams_;
  std::mutex mutex_;
  std::vector<Sleeper*> sleepers_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_FENCE_BOARD_H_
