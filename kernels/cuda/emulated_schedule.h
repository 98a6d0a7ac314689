// Schedules the blocks of an emulated program that wait for each other
// (block.h, "Turns"). For tests.
#ifndef CASTOR_KERNELS_CUDA_EMULATED_SCHEDULE_H_
#define CASTOR_KERNELS_CUDA_EMULATED_SCHEDULE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/check.h"

namespace castor::kernels::cuda {

// The number of blocks that run at once, as if a GPU had room for no more, and
// the seed that chooses among them.
struct EmulatedRoom {
  int blocks = 1;
  uint64_t seed = 0;
};

inline EmulatedRoom& CurrentEmulatedRoom() {
  static thread_local EmulatedRoom room;
  return room;
}

// Runs blocks on threads of their own, one of which runs at a time: when it
// takes a number, waits or passes a turn on, another one may be chosen at
// random. Blocks that would wait for ever end the process.
//
// Only the program's own turns order the accesses of two of these threads (all
// of the schedule's own are relaxed), so that the thread sanitizer finds
// accesses that a turn does not order.
class EmulatedSchedule {
 public:
  // Returns the calling thread's schedule.
  static EmulatedSchedule& Get() { return *Current(); }

  // Calls run(i) for each i < count.
  static void Run(int64_t count, const std::function<void(int64_t)>& run) {
    EmulatedSchedule schedule(CurrentEmulatedRoom());
    if (CurrentEmulatedRoom().blocks == 1) {
      schedule.RunSlot(0, count, run);
      return;
    }
    std::vector<std::thread> threads;
    for (int slot = 0; slot < CurrentEmulatedRoom().blocks; ++slot) {
      threads.emplace_back([&, slot] { schedule.RunSlot(slot, count, run); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Yield() {
    waits_.store(0, std::memory_order_relaxed);
    const int slot = moving_.load(std::memory_order_relaxed);
    MoveOn();
    AwaitMove(slot);
  }
  void YieldWaiting() {
    // After so many waits a block that can go on was chosen, if there is one.
    CASTOR_CHECK(waits_.fetch_add(1, std::memory_order_relaxed) < 10000);
    const int slot = moving_.load(std::memory_order_relaxed);
    MoveOn();
    AwaitMove(slot);
  }

 private:
  explicit EmulatedSchedule(const EmulatedRoom& room)
      : live_((uint64_t{1} << room.blocks) - 1), random_(room.seed) {}

  static EmulatedSchedule*& Current() {
    static thread_local EmulatedSchedule* current = nullptr;
    return current;
  }

  void RunSlot(int slot, int64_t count,
               const std::function<void(int64_t)>& run) {
    EmulatedSchedule* const outer = Current();
    Current() = this;
    AwaitMove(slot);
    int64_t i;
    while ((i = next_.fetch_add(1, std::memory_order_relaxed)) < count) run(i);
    live_.fetch_and(~(uint64_t{1} << slot), std::memory_order_relaxed);
    MoveOn();
    Current() = outer;
  }

  void AwaitMove(int slot) const {
    while (moving_.load(std::memory_order_relaxed) != slot) {
      std::this_thread::yield();
    }
  }
  // Moves to a random slot that still runs blocks, by the upper bits of Knuth's
  // linear congruential generator.
  void MoveOn() {
    const uint64_t live = live_.load(std::memory_order_relaxed);
    if (live == 0) return;
    int slot;
    do {
      const uint64_t random =
          random_.load(std::memory_order_relaxed) * 6364136223846793005u +
          1442695040888963407u;
      random_.store(random, std::memory_order_relaxed);
      slot = static_cast<int>(random >> 58);
    } while ((live >> slot & 1) == 0);
    moving_.store(slot, std::memory_order_relaxed);
  }

  std::atomic<int> moving_{0};
  std::atomic<uint64_t> live_;  // slots
  std::atomic<uint64_t> random_;
  std::atomic<int64_t> next_{0};
  std::atomic<int> waits_{0};  // since a block went on
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_EMULATED_SCHEDULE_H_
