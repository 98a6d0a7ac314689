// Checkpoints without memory: every allocation of a search for the newest one
// fails in turn, and none makes a whole checkpoint look damaged, behind which a
// run would go back to an older one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/test_files.h"
#include "run/checkpoint/checkpoint_for_test.h"

namespace {

// The allocations of this thread until one fails; below 0: none does.
thread_local int64_t allocations_left = -1;

}  // namespace

void* operator new(size_t bytes) {
  const bool fails = allocations_left >= 0 && allocations_left-- == 0;
  void* const memory = fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace castor {
namespace {

enum Outcome { kFoundTheNewest, kSaysThatMemoryIsShort, kGoesBack, kOther };

// An exception that leaves it ends the process, as it ends castor.
Outcome Find(const CheckpointDir& dir) noexcept {
  std::vector<std::string> skipped;
  const auto latest = dir.FindLatest(&skipped);
  if (!skipped.empty() || (latest.ok() && latest->step != 2)) return kGoesBack;
  if (latest.ok()) return kFoundTheNewest;
  return absl::IsResourceExhausted(latest.status()) ? kSaysThatMemoryIsShort
                                                    : kOther;
}

class CheckpointMemory : public ::testing::TestWithParam<int> {};

TEST_P(CheckpointMemory, NeverMakesAWholeCheckpointLookDamaged) {
  const TemporaryDirectory temporary;
  const CheckpointDir dir(temporary.path() + "/out");
  ASSERT_TRUE(dir.Make().ok());
  for (const int64_t step : {1, 2}) {
    ASSERT_TRUE(WriteStep(dir, step, GetParam()).ok());
  }
  int64_t ended = 0;
  bool failed = true;
  for (int64_t allocation = 0; failed; ++allocation) {
    // A process of its own, since not every destructor can do without memory:
    // then the program says so and ends (cli/output/out_of_memory.h).
    constexpr int kNothingFailed = 8;
    const pid_t child = fork();
    if (child == 0) {
      std::set_terminate([] { _exit(kSaysThatMemoryIsShort); });
      allocations_left = allocation;
      const Outcome outcome = Find(dir);
      _exit(outcome + (allocations_left < 0 ? 0 : kNothingFailed));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << allocation;
    const int outcome = WEXITSTATUS(status) % kNothingFailed;
    failed = WEXITSTATUS(status) < kNothingFailed;
    EXPECT_TRUE(outcome == kFoundTheNewest || outcome == kSaysThatMemoryIsShort)
        << allocation << ": " << outcome;
    EXPECT_TRUE(failed || outcome == kFoundTheNewest);
    ended += outcome == kSaysThatMemoryIsShort ? 1 : 0;
  }
  EXPECT_GT(ended, 50);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CheckpointMemory, ::testing::Values(1, 2),
                         [](const auto& info) {
                           return std::to_string(info.param);
                         });

}  // namespace
}  // namespace castor
