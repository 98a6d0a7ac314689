#include "device/comm/agreement.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "device/comm/thread_ranks.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

void OnRanks(int world_size,
             absl::FunctionRef<void(Communicator& communicator)> run) {
  const auto group = ThreadGroup::Create(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = HostDevice::Create({.memory_bytes = 1 << 12});
      ASSERT_TRUE(device.ok()) << device.status();
      const auto communicator = MakeThreadRank(
          group, rank, device->get(), {.time_limit_ns = 60'000'000'000});
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      run(**communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Agreement, IsThatOfTheLowestRankThatFailed) {
  OnRanks(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    EXPECT_TRUE(AgreeOnStatus(communicator, "a", absl::OkStatus()).ok());
    const absl::Status agreed = AgreeOnStatus(
        communicator, "b",
        rank == 0   ? absl::OkStatus()
        : rank == 1 ? absl::DataLossError(std::string(100'000, 'x'))
                    : absl::NotFoundError("this is not what they hear of"));
    EXPECT_EQ(agreed,
              absl::DataLossError("rank 1: " + std::string(100'000, 'x')));
    // The group goes on.
    EXPECT_TRUE(AgreeOnStatus(communicator, "c", absl::OkStatus()).ok());
  });
}

// Who has heard may end the group at once; all others have heard as well.
TEST(Agreement, IsHeardByAllBeforeAnyGoesOn) {
  for (int round = 0; round < 20; ++round) {
    OnRanks(3, [&](Communicator& communicator) {
      const absl::Status agreed = AgreeOnStatus(communicator, "a",
                                                communicator.rank() == round % 3
                                                    ? absl::DataLossError("bad")
                                                    : absl::OkStatus());
      communicator.Fail(agreed);
      EXPECT_EQ(agreed,
                absl::DataLossError(absl::StrCat("rank ", round % 3, ": bad")));
    });
  }
}

// There are more values than one collective takes.
TEST(Agreement, IsOnTheHighestOfEachValue) {
  OnRanks(3, [](Communicator& communicator) {
    const int64_t rank = communicator.rank();
    std::vector<int64_t> values, highest;
    for (int64_t i = 0; i < Communicator::kMaxAllReduceBytes / 8 + 5; ++i) {
      values.push_back(i % 3 == rank ? i : -i);
      highest.push_back(i);
    }
    EXPECT_TRUE(TakeHighest(communicator, "a", 0, absl::MakeSpan(values)).ok());
    EXPECT_EQ(values, highest);
  });
}

TEST(Agreement, GivesEachRankTheTextOfOne) {
  OnRanks(3, [](Communicator& communicator) {
    for (const std::string& wanted : {std::string(), std::string("hello")}) {
      std::string text = communicator.rank() == 2 ? wanted : "other text";
      EXPECT_TRUE(BroadcastText(communicator, "text", 2, &text).ok());
      EXPECT_EQ(text, wanted);
    }
  });
}

TEST(Agreement, FailsWithTheGroup) {
  OnRanks(2, [](Communicator& communicator) {
    if (communicator.rank() == 1) {
      communicator.Fail(absl::ResourceExhaustedError("no more"));
    }
    const absl::Status failed =
        AgreeOnStatus(communicator, "a", absl::OkStatus());
    EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted) << failed;
  });
}

}  // namespace
}  // namespace castor
