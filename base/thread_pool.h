// A pool of workers for data-parallel loops.
//
// The result of a loop must not depend on the number of threads: callers cut
// their work into tasks only by shapes, and the pool only assigns tasks to
// threads.
#ifndef CASTOR_BASE_THREAD_POOL_H_
#define CASTOR_BASE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace castor {

// Returns the number of processors that this process may run on (its affinity
// mask). At least 1.
int AvailableProcessors();

// Thread-safe: loops of several callers run one after the other. A task may not
// start a loop on its own pool.
//
// Cost: while workers are awake (they poll for a new loop for a short while
// before they sleep) a loop of empty tasks costs well under a microsecond; a
// loop that finds them asleep pays for waking them, but does not wait for them.
class ThreadPool {
 public:
  // `threads` >= 1 counts the caller: ThreadPool(1) starts no worker. With
  // more, check status() before the first loop.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // ResourceExhausted: the system gave fewer threads than were asked for. Loops
  // still work, on fewer threads.
  const absl::Status& status() const { return status_; }
  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs fn(task, thread) for every task in [0, num_tasks), in any order, and
  // returns when all are done. `thread` is in [0, num_threads()): no two tasks
  // that run at once share it. The caller takes part.
  void ParallelFor(int64_t num_tasks,
                   absl::FunctionRef<void(int64_t task, int thread)> fn);

 private:
  void WorkerLoop(int thread);
  void RunTasks(int thread);
  bool HasNews(uint64_t seen) const;

  // One word holds the state of the loop:
  //
  //   bits 0..15   workers inside the loop
  //   bit  16      the caller sleeps until the last of them has left
  //   bit  17      open: workers may enter
  //   bits 18..63  generation: the number of the loop
  //
  // A worker enters by raising the count while the loop is open; the caller
  // closes the loop once no task is left and waits for the count to fall to 0.
  // So a late worker costs the caller nothing, and the description of the loop
  // (fn_, num_tasks_) changes only while no worker is inside.
  static constexpr uint64_t kInside = (uint64_t{1} << 16) - 1;
  static constexpr uint64_t kCallerSleeps = uint64_t{1} << 16;
  static constexpr uint64_t kOpen = uint64_t{1} << 17;
  static constexpr uint64_t kGeneration = uint64_t{1} << 18;

  std::mutex loop_mutex_;  // one loop at a time
  std::vector<std::thread> workers_;
  absl::Status status_;

  const absl::FunctionRef<void(int64_t, int)>* fn_ = nullptr;
  int64_t num_tasks_ = 0;
  // Its own cache line: every thread of a loop writes it.
  alignas(64) std::atomic<int64_t> next_task_{0};
  alignas(64) std::atomic<uint64_t> state_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};

  std::mutex sleep_mutex_;  // for the two below only
  std::condition_variable work_;
  std::condition_variable done_;
};

}  // namespace castor

#endif  // CASTOR_BASE_THREAD_POOL_H_
