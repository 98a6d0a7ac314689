#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>

#include "base/check.h"

namespace castor {

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

ThreadPool::ThreadPool(int threads) {
  CASTOR_CHECK(threads >= 1);
  workers_.reserve(threads - 1);
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { WorkerLoop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
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
  {
    std::lock_guard<std::mutex> lock(mutex_);
    fn_ = &fn;
    num_tasks_ = num_tasks;
    next_task_ = 0;
    ++generation_;
  }
  work_.notify_all();
  RunTasks(0);
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return active_workers_ == 0; });
  fn_ = nullptr;
}

void ThreadPool::RunTasks(int thread) {
  while (true) {
    int64_t task;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (next_task_ >= num_tasks_) return;
      task = next_task_++;
    }
    (*fn_)(task, thread);
  }
}

void ThreadPool::WorkerLoop(int thread) {
  int64_t seen = 0;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      work_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      if (fn_ == nullptr) continue;  // woke after the loop was over
      ++active_workers_;
    }
    RunTasks(thread);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (--active_workers_ == 0) done_.notify_all();
    }
  }
}

}  // namespace castor
