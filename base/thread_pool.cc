#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/spin_wait.h"
#include "base/thread.h"

namespace castor {

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

ThreadPool::ThreadPool(int threads) {
  CASTOR_CHECK(threads >= 1 && static_cast<uint64_t>(threads) <= kInside);
  workers_.reserve(threads - 1);
  for (int thread = 1; thread < threads; ++thread) {
    auto worker =
        StartThread("a pool's worker", [this, thread] { WorkerLoop(thread); });
    if (!worker.ok()) {
      status_ = worker.status();
      return;
    }
    workers_.push_back(*std::move(worker));
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  { std::lock_guard<std::mutex> lock(sleep_mutex_); }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(int64_t num_tasks,
                             absl::FunctionRef<void(int64_t, int)> fn) {
  if (num_tasks <= 0) return;
  std::lock_guard<std::mutex> loop(loop_mutex_);
  if (num_tasks == 1 || workers_.empty()) {
    for (int64_t task = 0; task < num_tasks; ++task) fn(task, 0);
    return;
  }
  fn_ = &fn;
  num_tasks_ = num_tasks;
  next_task_.store(0, std::memory_order_relaxed);
  // Opens the next loop. Sequentially consistent, as are the sleeper's steps:
  // either it sees the open loop or we see the sleeper.
  state_.fetch_add(kGeneration + kOpen);
  const int sleepers = sleepers_.load();
  if (sleepers > 0) {
    { std::lock_guard<std::mutex> lock(sleep_mutex_); }
    if (num_tasks - 1 < sleepers) {
      for (int64_t i = 1; i < num_tasks; ++i) work_.notify_one();
    } else {
      work_.notify_all();
    }
  }
  RunTasks(0);
  const uint64_t closed = state_.fetch_sub(kOpen) - kOpen;
  if ((closed & kInside) == 0) return;
  const auto all_left = [this] {
    return (state_.load(std::memory_order_acquire) & kInside) == 0;
  };
  if (SpinUntil(all_left)) return;
  std::unique_lock<std::mutex> lock(sleep_mutex_);
  state_.fetch_or(kCallerSleeps);
  done_.wait(lock, all_left);
  state_.fetch_and(~kCallerSleeps);
}

void ThreadPool::RunTasks(int thread) {
  while (true) {
    const int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= num_tasks_) return;
    (*fn_)(task, thread);
  }
}

// An open loop that is not the one of generation `seen`, or the end.
bool ThreadPool::HasNews(uint64_t seen) const {
  const uint64_t state = state_.load();
  return ((state & kOpen) != 0 && state / kGeneration != seen) || stop_.load();
}

void ThreadPool::WorkerLoop(int thread) {
  uint64_t seen = 0;
  while (true) {
    if (!SpinUntil([&] { return HasNews(seen); })) {
      std::unique_lock<std::mutex> lock(sleep_mutex_);
      sleepers_.fetch_add(1);
      work_.wait(lock, [&] { return HasNews(seen); });
      sleepers_.fetch_sub(1);
    }
    if (stop_.load()) return;
    uint64_t state = state_.load();
    bool entered = false;
    while ((state & kOpen) != 0 && !entered) {
      entered = state_.compare_exchange_weak(state, state + 1);
    }
    if (!entered) continue;  // closed meanwhile
    seen = state / kGeneration;
    RunTasks(thread);
    const uint64_t before = state_.fetch_sub(1);
    if ((before & kInside) == 1 && (before & kCallerSleeps) != 0) {
      { std::lock_guard<std::mutex> lock(sleep_mutex_); }
      done_.notify_one();
    }
  }
}

}  // namespace castor
