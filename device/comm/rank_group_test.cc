#include "device/comm/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/comm/thread_ranks.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr CommunicatorOptions kOptions = {.time_limit_ns = 20'000'000'000};

// `body` on every rank, each on a thread of its own.
void OnRanks(int world_size, const std::function<void(RankGroup&)>& body,
             const std::shared_ptr<ThreadGroup>& threads,
             const CommunicatorOptions& options = kOptions) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      RankGroup group(threads->NewTransport(rank), options);
      body(group);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

void OnRanks(int world_size, const std::function<void(RankGroup&)>& body) {
  OnRanks(world_size, body, ThreadGroup::Create(world_size));
}

TEST(RankGroup, ExchangesTextsOfEverySizeByRank) {
  for (int world_size = 1; world_size <= 4; ++world_size) {
    OnRanks(world_size, [&](RankGroup& group) {
      EXPECT_EQ(group.world_size(), world_size);
      for (const int64_t size : {0, 1, 1000, 100'000}) {
        const auto text_of = [&](int rank) {
          return std::string(size * rank, static_cast<char>('a' + rank));
        };
        const auto texts = group.Exchange("texts", text_of(group.rank()));
        ASSERT_TRUE(texts.ok()) << texts.status();
        ASSERT_EQ(texts->size(), world_size);
        for (int rank = 0; rank < world_size; ++rank) {
          EXPECT_EQ((*texts)[rank], text_of(rank));
        }
      }
    });
  }
}

TEST(RankGroup, AgreesWhereAllAreWell) {
  OnRanks(3, [](RankGroup& group) {
    EXPECT_TRUE(group.Agree("start", absl::OkStatus()).ok());
  });
}

TEST(RankGroup, TellsAllOfTheFirstThatIsNot) {
  OnRanks(4, [](RankGroup& group) {
    const absl::Status mine =
        group.rank() < 2
            ? absl::OkStatus()
            : absl::NotFoundError(absl::StrCat("no file ", group.rank()));
    const absl::Status all = group.Agree("start", mine);
    EXPECT_EQ(all.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(all.message(), "rank 2: no file 2");
    // It was no failure of the group.
    EXPECT_TRUE(group.Agree("end", absl::OkStatus()).ok());
  });
}

TEST(RankGroup, NamesNoRankWhereAllSayTheSame) {
  OnRanks(3, [](RankGroup& group) {
    EXPECT_EQ(
        group.Agree("start", absl::InvalidArgumentError("steps: must be set"))
            .message(),
        "steps: must be set");
  });
}

TEST(RankGroup, FailsWhereRanksAreAtDifferentPlaces) {
  OnRanks(3, [](RankGroup& group) {
    const char* const key = group.rank() == 1 ? "machines" : "start";
    const absl::Status status = group.Exchange(key, "x").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"machines\""));
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"start\""));
    // The group has failed for good.
    EXPECT_EQ(group.Exchange("start", "x").status(), status);
  });
}

TEST(RankGroup, FailsWhenARankDies) {
  const auto threads = ThreadGroup::Create(3);
  // Messages on their way from a rank die with it.
  std::barrier all_agreed(3);
  OnRanks(
      3,
      [&](RankGroup& group) {
        EXPECT_TRUE(group.Agree("start", absl::OkStatus()).ok());
        all_agreed.arrive_and_wait();
        if (group.rank() == 2) {
          threads->Kill(2);
          return;
        }
        EXPECT_THAT(std::string(group.Exchange("next", "x").status().message()),
                    HasSubstr("rank 2"));
      },
      threads);
}

TEST(RankGroup, NamesTheRanksThatDoNotCome) {
  std::barrier all_ended(4);
  OnRanks(
      4,
      [&](RankGroup& group) {
        if (group.rank() % 2 == 0) {
          EXPECT_THAT(
              std::string(group.Exchange("start", "x").status().message()),
              HasSubstr("rank 1, 3 did not come to \"start\" within 1 s of "));
        }
        all_ended.arrive_and_wait();
      },
      ThreadGroup::Create(4), {.time_limit_ns = 1'000'000'000});
}

TEST(RankGroup, GivesItsCommunicatorOnce) {
  OnRanks(2, [](RankGroup& group) {
    ASSERT_TRUE(group.Agree("start", absl::OkStatus()).ok());
    auto device = HostDevice::Create({.memory_bytes = 0});
    ASSERT_TRUE(device.ok()) << device.status();
    auto communicator = group.MakeCommunicator(device->get());
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    int64_t sum = group.rank() + 1;
    const auto done =
        (*communicator)
            ->AllReduce("sum", 0, ReduceOp::kSum, absl::MakeSpan(&sum, 1));
    ASSERT_TRUE(done.ok()) << done.status();
    ASSERT_TRUE((*device)->Synchronize(*done).ok());
    EXPECT_EQ(sum, 3);
    for (const absl::Status& status :
         {group.MakeCommunicator(device->get()).status(),
          group.Exchange("late", "x").status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    }
  });
}

TEST(RankGroup, AProcessStartedAloneIsAGroupOfOne) {
  auto group = RankGroup::Join({}, kOptions);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ((*group)->rank(), 0);
  EXPECT_EQ((*group)->world_size(), 1);
  EXPECT_THAT(*(*group)->Exchange("texts", "mine"), ElementsAre("mine"));
  EXPECT_EQ((*group)->Agree("start", absl::NotFoundError("x")).message(), "x");
}

}  // namespace
}  // namespace castor
