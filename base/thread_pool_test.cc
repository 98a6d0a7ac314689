#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/test_threads.h"

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

TEST(ThreadPool, WorksWithTheThreadsThatThereAreAndSaysSo) {
  for (int more : {0, 2}) {
    const FewThreads few(more);
    ThreadPool pool(5);
    EXPECT_TRUE(absl::IsResourceExhausted(pool.status())) << pool.status();
    EXPECT_EQ(pool.num_threads(), 1 + more);
    std::vector<std::atomic<int>> runs(100);
    pool.ParallelFor(100, [&](int64_t task, int thread) {
      EXPECT_LE(thread, more);
      runs[task].fetch_add(1);
    });
    for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
  }
  EXPECT_TRUE(ThreadPool(5).status().ok());
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

TEST(ThreadPool, ShortLoopsInARowLoseNoTask) {
  // Loops shorter than a wake-up: workers come late, or find the loop closed.
  ThreadPool pool(4);
  for (int loop = 0; loop < 20000; ++loop) {
    int64_t seen[3] = {-1, -1, -1};
    pool.ParallelFor(3, [&](int64_t task, int) { seen[task] = loop; });
    for (int64_t value : seen) ASSERT_EQ(value, loop);
  }
}

TEST(ThreadPool, WorkersComeBackFromSleep) {
  ThreadPool pool(3);
  for (int loop = 0; loop < 20; ++loop) {
    // Longer than the workers look before they sleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // The two tasks wait for each other: one thread alone could not end them.
    std::atomic<int> arrived{0};
    pool.ParallelFor(2, [&](int64_t, int) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPool, CallerSleepsUntilTheLastTaskIsOver) {
  ThreadPool pool(2);
  for (int loop = 0; loop < 20; ++loop) {
    std::atomic<int> arrived{0};
    int64_t late = 0;
    pool.ParallelFor(2, [&](int64_t, int thread) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
      if (thread == 0) return;
      // Longer than the caller looks before it sleeps.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      late = 1;
    });
    EXPECT_EQ(late, 1);
  }
}

TEST(AvailableProcessors, IsPositive) { EXPECT_GE(AvailableProcessors(), 1); }

}  // namespace
}  // namespace castor
