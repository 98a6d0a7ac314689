#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "base/test_threads.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

TEST(StartThread, RunsItsBody) {
  bool ran = false;
  auto thread = StartThread("a test", [&] { ran = true; });
  ASSERT_TRUE(thread.ok()) << thread.status();
  thread->join();
  EXPECT_TRUE(ran);
}

TEST(StartBackgroundThread, GoesAfterOthers) {
  const auto niceness = [] {
    return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
  };
  constexpr int kMost = 19;  // of Linux
  const int own = niceness();
  int its = 0, policy = -1;
  auto thread = StartBackgroundThread("a test", [&] {
    its = niceness();
    policy = sched_getscheduler(0);
  });
  ASSERT_TRUE(thread.ok()) << thread.status();
  thread->join();
  EXPECT_EQ(policy, SCHED_BATCH);
  EXPECT_EQ(its, std::min(own + 5, kMost));
  EXPECT_EQ(niceness(), own);
}

// No machine has the address space for this stack, whoever asks.
TEST(StartThread, SystemThatGivesNoneIsAnError) {
  pthread_attr_t before, after;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&after), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&after, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&after), 0);
  const auto thread =
      StartThread("a test", [] { ADD_FAILURE() << "it runs after all"; });
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&after);
  EXPECT_EQ(thread.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(thread.status().message(), "for a test"))
      << thread.status();
}

TEST(StartThread, FailsAfterAsManyAsATestAllows) {
  const auto held = std::make_shared<int>();
  {
    const FewThreads few(1);
    auto first = StartThread("the first", [] {});
    ASSERT_TRUE(first.ok()) << first.status();
    first->join();
    EXPECT_EQ(few.left(), 0);
    const auto second = StartThread("the second", [held] {});
    EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
    EXPECT_TRUE(absl::StrContains(second.status().message(), "ulimit -u"))
        << second.status();
    // Everything that its body held is released.
    EXPECT_EQ(held.use_count(), 1);
  }
  auto third = StartThread("the third", [] {});
  ASSERT_TRUE(third.ok()) << third.status();
  third->join();
}

}  // namespace
}  // namespace castor
