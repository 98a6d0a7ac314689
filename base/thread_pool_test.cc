#include "base/thread_pool.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace castor {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t tasks : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> runs(tasks);
      pool.ParallelFor(tasks, [&](int64_t task, int thread) {
        EXPECT_LT(thread, threads);
        runs[task].fetch_add(1);
      });
      for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, NoTwoTasksShareAThreadNumberAtOnce) {
  ThreadPool pool(4);
  std::vector<std::atomic<bool>> busy(4);
  for (int loop = 0; loop < 200; ++loop) {
    pool.ParallelFor(64, [&](int64_t, int thread) {
      EXPECT_FALSE(busy[thread].exchange(true));
      busy[thread].store(false);
    });
  }
}

TEST(ThreadPool, SerialisesCallers) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int loop = 0; loop < 50; ++loop) {
        pool.ParallelFor(10, [&](int64_t task, int) { sum += task; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 4 * 50 * 45);
}

TEST(AvailableProcessors, IsPositive) { EXPECT_GE(AvailableProcessors(), 1); }

}  // namespace
}  // namespace castor
