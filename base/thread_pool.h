// A pool of workers for data-parallel loops.
//
// What a loop computes must not depend on the number of threads: callers cut
// their work into tasks by the shapes alone, and the pool only decides who runs
// which task.
#ifndef CASTOR_BASE_THREAD_POOL_H_
#define CASTOR_BASE_THREAD_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace castor {

// Processors this process may run on (its affinity mask). At least 1.
int AvailableProcessors();

// Thread-safe: loops of several callers run one after the other. A task may not
// start a loop on its own pool.
class ThreadPool {
 public:
  // `threads` >= 1 counts the caller: ThreadPool(1) starts no worker.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs fn(task, thread) for every task in [0, num_tasks), in any order, and
  // returns when all are done. `thread` is in [0, num_threads()): no two tasks
  // that run at once share it. The caller takes part.
  void ParallelFor(int64_t num_tasks,
                   absl::FunctionRef<void(int64_t task, int thread)> fn);

 private:
  void WorkerLoop(int thread);
  void RunTasks(int thread);

  std::mutex loop_mutex_;  // one loop at a time
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  const absl::FunctionRef<void(int64_t, int)>* fn_ = nullptr;
  int64_t num_tasks_ = 0;
  int64_t next_task_ = 0;
  int64_t generation_ = 0;
  int active_workers_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace castor

#endif  // CASTOR_BASE_THREAD_POOL_H_
