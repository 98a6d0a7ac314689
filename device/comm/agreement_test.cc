#include "device/comm/agreement.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/comm/exchange_communicator.h"
#include "device/comm/thread_ranks.h"
#include "device/comm/transport.h"
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

// A rank that has heard may end the group at once; all others have heard as
// well.
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

// The number of headers that each of two ranks has sent: the meetings that it
// has begun.
using Begun = std::array<std::atomic<int>, 2>;

// One of two ranks, which loses what comes in meeting `deaf_in` (0: in none),
// and finds that out when the other has come out of that meeting.
class DeafTransport final : public Transport {
 public:
  DeafTransport(std::unique_ptr<Transport> inner, int deaf_in, Begun* begun)
      : inner_(std::move(inner)), deaf_in_(deaf_in), begun_(*begun) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  absl::Status Send(int peer, Lane lane, const void* data, int64_t bytes,
                    int64_t token) override {
    if (lane == Lane::kHeader) ++begun_[rank()];
    return inner_->Send(peer, lane, data, bytes, token);
  }
  absl::Status Receive(int peer, Lane lane, void* data, int64_t bytes,
                       int64_t token) override {
    return inner_->Receive(peer, lane, data, bytes, token);
  }
  absl::Status Poll(int64_t wait_ns, bool hot,
                    std::vector<int64_t>* done) override {
    if (begun_[rank()] != deaf_in_) return inner_->Poll(wait_ns, hot, done);
    while (begun_[1 - rank()] <= deaf_in_) {
      std::vector<int64_t> lost;
      const absl::Status polled = inner_->Poll(0, hot, &lost);
      if (!polled.ok()) return polled;
      std::this_thread::yield();
    }
    return absl::UnavailableError("the connection broke");
  }
  void Abandon() override { inner_->Abandon(); }
  void Announce(const absl::Status& reason) override {
    inner_->Announce(reason);
  }
  absl::Status Failure() const override { return inner_->Failure(); }
  void Close(bool orderly) override { inner_->Close(orderly); }

 private:
  const std::unique_ptr<Transport> inner_;
  const int deaf_in_;
  Begun& begun_;
};

// Returns the results of EndTogether on each of two ranks, of which `deaf` is
// as above.
std::array<absl::Status, 2> EndWithDeafRank(int deaf, int deaf_in) {
  const auto group = ThreadGroup::Create(2);
  Begun begun = {};
  std::array<absl::Status, 2> ends;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = HostDevice::Create({.memory_bytes = 1 << 12});
      ASSERT_TRUE(device.ok()) << device.status();
      const auto communicator = ExchangeCommunicator::Create(
          device->get(),
          std::make_unique<DeafTransport>(group->NewTransport(rank),
                                          rank == deaf ? deaf_in : 0, &begun),
          {.time_limit_ns = 60'000'000'000});
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      ends[rank] = EndTogether(**communicator, "end");
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST(EndTogether, IsWellWhereAllAre) {
  const auto [first, second] = EndWithDeafRank(0, 0);
  EXPECT_TRUE(first.ok()) << first;
  EXPECT_TRUE(second.ok()) << second;
}

// Rank 0 speaks for all: if it ended well, nobody would say why the other did
// not.
TEST(EndTogether, FailsOnRankZeroIfAnotherRankFails) {
  const auto [first, second] = EndWithDeafRank(1, 1);
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable) << second;
  EXPECT_EQ(first.code(), absl::StatusCode::kUnavailable) << first;
  EXPECT_TRUE(absl::StrContains(first.message(), "the connection broke"))
      << first;
}

TEST(EndTogether, FailsOnNoOtherRankAlone) {
  for (const int deaf : {0, 1}) {
    const auto [first, second] = EndWithDeafRank(deaf, 2);
    EXPECT_EQ(first.ok(), deaf == 1) << first;
    EXPECT_TRUE(second.ok()) << second;
  }
  const auto [first, second] = EndWithDeafRank(0, 1);
  EXPECT_FALSE(first.ok());
  EXPECT_TRUE(second.ok()) << second;
}

}  // namespace
}  // namespace castor
