// Tests what happens on the other ranks when one is slow, calls something else,
// dies or hangs; with ranks as threads.
#include "device/comm/thread_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/comm/testing/communicator_oracle.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

constexpr int64_t kMs = 1'000'000;
// The limit of tests that want it to run out.
constexpr int64_t kShortLimitNs = 300 * kMs;

std::unique_ptr<Device> NewDevice() {
  auto device = HostDevice::Create({.memory_bytes = 1 << 16});
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *std::move(device) : nullptr;
}

using Body = std::function<void(Communicator&)>;

void RunRanks(const std::shared_ptr<ThreadGroup>& group, const Body& body,
              const CommunicatorOptions& options = {}) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < group->world_size(); ++rank) {
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Device> device = NewDevice();
      auto communicator = MakeThreadRank(group, rank, device.get(), options);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      body(**communicator);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// Ranks that have all come through a collective go on from here: without it one
// may fail while another is still on its way out.
class Meeting {
 public:
  explicit Meeting(int ranks) : missing_(ranks) {}
  void Meet() {
    --missing_;
    while (missing_.load() > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> missing_;
};

// Returns how the call ended, whether it was refused or queued.
absl::Status End(Communicator& comm, const absl::StatusOr<Fence>& fence) {
  return fence.ok() ? comm.device().Synchronize(*fence) : fence.status();
}

void ExpectSays(const absl::Status& status, absl::StatusCode code,
                const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word))
        << "no \"" << word << "\" in: " << status.message();
  }
}

// Everything that is called later fails too, and at once.
void ExpectPoisoned(Communicator& comm) {
  int64_t number = 0;
  EXPECT_FALSE(comm.failure().ok());
  EXPECT_EQ(comm.Barrier("later", 0).status(), comm.failure());
  EXPECT_EQ(
      comm.AllReduce("later", 0, ReduceOp::kSum, absl::MakeSpan(&number, 1))
          .status(),
      comm.failure());
}

TEST(ThreadRanks, DifferentKeysStopWithBothNamed) {
  Meeting meeting(3);
  RunRanks(ThreadGroup::Create(3), [&](Communicator& comm) {
    EXPECT_TRUE(End(comm, comm.Barrier("same", 0)).ok());
    meeting.Meet();
    const absl::Status status = End(
        comm, comm.Barrier(comm.rank() == 1 ? "gather chunk 4" : "loss", 0));
    ExpectSays(status, absl::StatusCode::kFailedPrecondition,
               {"different collectives", "barrier at \"gather chunk 4\" (#2)",
                "barrier at \"loss\" (#2)", "rank 1"});
    ExpectPoisoned(comm);
  });
}

TEST(ThreadRanks, DifferentKindsSizesTypesAndRootsStop) {
  const auto differ =
      [](const std::function<absl::StatusOr<Fence>(Communicator&, std::byte*)>&
             call,
         const std::vector<std::string>& words) {
        RunRanks(ThreadGroup::Create(2), [&](Communicator& comm) {
          Bytes memory(4096);
          ExpectSays(End(comm, call(comm, memory.data())),
                     absl::StatusCode::kFailedPrecondition, words);
          ExpectPoisoned(comm);
        });
      };
  differ(
      [](Communicator& comm, std::byte* memory) {
        return comm.rank() == 0 ? comm.AllGather("x", 0, memory, memory + 64, 8)
                                : comm.AllToAll("x", 0, memory, memory + 64, 8);
      },
      {"all-gather", "all-to-all"});
  differ(
      [](Communicator& comm, std::byte* memory) {
        return comm.AllGather("x", 0, memory, memory + 64, 8 + comm.rank());
      },
      {"8 bytes per rank", "9 bytes per rank"});
  differ(
      [](Communicator& comm, std::byte* memory) {
        return comm.Broadcast("x", 0, comm.rank(), memory, 8);
      },
      {"from rank 0", "from rank 1"});
  differ(
      [](Communicator& comm, std::byte* memory) {
        return comm.AllReduce(
            "x", 0, comm.rank() == 0 ? ReduceOp::kMin : ReduceOp::kMax,
            absl::MakeSpan(reinterpret_cast<float*>(memory), 1));
      },
      {"(min)", "(max)"});
  differ(
      [](Communicator& comm, std::byte* memory) {
        // The same number of bytes.
        return comm.ReduceScatter(
            "x", 0, comm.rank() == 0 ? DType::kFloat32 : DType::kBFloat16,
            memory, memory + 64, reinterpret_cast<float*>(memory + 128),
            comm.rank() == 0 ? 1 : 2, true, StreamId::kCompute);
      },
      {"fp32", "bf16"});
  differ(
      [](Communicator& comm, std::byte* memory) {
        return comm.ReduceScatter(
            "x", 0, comm.rank() == 0 ? DType::kFloat16 : DType::kBFloat16,
            memory, memory + 64, reinterpret_cast<float*>(memory + 128), 2,
            true, StreamId::kCompute);
      },
      {"fp16", "bf16"});
  differ(
      [](Communicator& comm, std::byte* memory) {
        // Rank 0 sends 24 bytes where 16 are expected.
        const std::vector<int64_t> send = {8, comm.rank() == 0 ? 24 : 8};
        const std::vector<int64_t> recv = {8, comm.rank() == 0 ? 16 : 8};
        const std::vector<int64_t> send1 = {16, 8}, recv1 = {16, 8};
        return comm.rank() == 0
                   ? comm.AllToAll("x", 0, memory, send, memory + 64, recv)
                   : comm.AllToAll("x", 0, memory, send1, memory + 64, recv1);
      },
      {"rank 0 has 24 bytes for rank 1, which expects 16"});
}

TEST(ThreadRanks, RankThatLeavesEarlyIsNamed) {
  Meeting meeting(3);
  RunRanks(ThreadGroup::Create(3), [&](Communicator& comm) {
    EXPECT_TRUE(End(comm, comm.Barrier("first", 0)).ok());
    meeting.Meet();
    if (comm.rank() == 2) return;
    ExpectSays(End(comm, comm.Barrier("second", 0)),
               absl::StatusCode::kFailedPrecondition,
               {"rank 2", "leaving the group", "second"});
    ExpectPoisoned(comm);
  });
}

TEST(ThreadRanks, DeathAtAnyMessageIsReportedByAllOthers) {
  // Rank 1 dies before its message number k, in the middle of this and that.
  for (const int world_size : {2, 3, 4}) {
    for (int k = 0; k < 40; k += 3) {
      SCOPED_TRACE(testing::Message() << world_size << " ranks, " << k);
      const auto group = ThreadGroup::Create(world_size);
      group->SetFaults(1, {.die_after = k});
      RunRanks(group, [](Communicator& comm) {
        const int n = comm.world_size();
        Bytes send(n * 5000), recv(n * 5000);
        std::vector<float> sum(1000);
        absl::Status status;
        for (int i = 0; i < 40 && status.ok(); ++i) {
          status.Update(End(comm, comm.AllGather("gather", 0, send.data(),
                                                 recv.data(), 5000)));
          status.Update(End(
              comm, comm.ReduceScatter("reduce", 0, DType::kFloat32,
                                       send.data(), recv.data(), sum.data(),
                                       1000, true, StreamId::kHostCompute)));
        }
        ExpectSays(status, absl::StatusCode::kUnavailable,
                   {comm.rank() == 1 ? "rank 1 was killed" : "rank 1 died",
                    absl::StrCat("rank ", comm.rank(), " of ", n),
                    "last collective of each rank", "rank 0: ", "rank 1: "});
        ExpectPoisoned(comm);
      });
    }
  }
}

TEST(ThreadRanks, DeathBetweenCollectivesIsSeenWithoutACall) {
  const auto group = ThreadGroup::Create(2);
  Meeting meeting(2);
  RunRanks(group, [&](Communicator& comm) {
    EXPECT_TRUE(End(comm, comm.Barrier("before", 0)).ok());
    meeting.Meet();
    if (comm.rank() == 1) group->Kill(1);
    while (comm.failure().ok()) std::this_thread::yield();
    ExpectSays(comm.failure(), absl::StatusCode::kUnavailable,
               {"rank 1", "rank 0: barrier at \"before\" (#1)"});
    ExpectPoisoned(comm);
  });
}

TEST(ThreadRanks, HungRankIsReportedWithinTheTimeLimit) {
  // Rank 2's messages no longer get through; it is a victim itself.
  for (const int64_t k : {0, 1, 4, 5}) {
    const auto group = ThreadGroup::Create(3);
    group->SetFaults(2, {.lose_after = k});
    RunRanks(group,
             [](Communicator& comm) {
               Bytes send(100), recv(300);
               absl::Status status;
               for (int i = 0; i < 8 && status.ok(); ++i) {
                 status =
                     End(comm, comm.AllGather(absl::StrCat("gather ", i), 0,
                                              send.data(), recv.data(), 100));
               }
               ExpectSays(status, absl::StatusCode::kUnavailable,
                          {"rank 2", "time limit", "gather"});
               ExpectPoisoned(comm);
             },
             {.time_limit_ns = kShortLimitNs});
  }
}

TEST(ThreadRanks, RankThatNeverComesIsReportedWithItsLastCollective) {
  std::atomic<int> reported{0};
  RunRanks(ThreadGroup::Create(3),
           [&](Communicator& comm) {
             EXPECT_TRUE(End(comm, comm.Barrier("all are here", 0)).ok());
             if (comm.rank() == 0) {
               // Stuck in its own work until the others have given up.
               while (reported.load() < 2) std::this_thread::yield();
             } else {
               ExpectSays(End(comm, comm.Barrier("where is it", 0)),
                          absl::StatusCode::kUnavailable,
                          {"rank 0 did not join",
                           "rank 0: barrier at \"all are here\" (#1)",
                           "rank 1: barrier at \"where is it\" (#2)",
                           "rank 2: barrier at \"where is it\" (#2)"});
               ++reported;
             }
             ExpectPoisoned(comm);
           },
           {.time_limit_ns = kShortLimitNs});
}

TEST(ThreadRanks, SlowRankOnlyCostsTime) {
  const auto group = ThreadGroup::Create(3);
  group->SetFaults(1, {.delay_ns = 2 * kMs});
  RunRanks(group, [](Communicator& comm) {
    RunRandomSequence(77, 20, comm);
    const CommunicatorStats stats = comm.stats();
    if (comm.rank() != 1) {
      EXPECT_GT(stats.wait_ns[1], 0);
    }
  });
}

TEST(ThreadRanks, FailureOfOneRankReachesAll) {
  RunRanks(ThreadGroup::Create(4), [](Communicator& comm) {
    if (comm.rank() == 3) {
      comm.Fail(absl::ResourceExhaustedError("no space left on disk"));
    }
    absl::Status status;
    while (status.ok()) status = End(comm, comm.Barrier("go on", 0));
    ExpectSays(status, absl::StatusCode::kResourceExhausted,
               {"rank 3 failed: no space left on disk"});
    ExpectPoisoned(comm);
  });
}

TEST(ThreadRanks, FirstFailureStays) {
  RunRanks(ThreadGroup::Create(2), [](Communicator& comm) {
    if (comm.rank() == 0) {
      comm.Fail(absl::InternalError("first"));
      comm.Fail(absl::InternalError("second"));
    }
    while (comm.failure().ok()) std::this_thread::yield();
    ExpectSays(comm.failure(), absl::StatusCode::kInternal, {"first"});
  });
}

TEST(ThreadRanks, QueuedSumsAreSkippedAfterAFailure) {
  const auto group = ThreadGroup::Create(2);
  group->SetFaults(0, {.die_after = 2});
  RunRanks(group, [](Communicator& comm) {
    const std::vector<float> send = {1, 1};
    float part = 0, sum = 5;
    absl::Status status;
    Fence all;
    for (int i = 0; i < 10; ++i) {
      const absl::StatusOr<Fence> fence =
          comm.ReduceScatter("sum", 0, DType::kFloat32, send.data(), &part,
                             &sum, 1, false, StreamId::kHostCompute);
      status.Update(fence.status());
      if (fence.ok()) all.Add(*fence);
    }
    // Queued work failed, or later calls were refused.
    status.Update(comm.device().Synchronize(all));
    EXPECT_FALSE(status.ok());
    // One exchange may have ended well.
    EXPECT_LE(sum, 7.0f);
  });
}

TEST(ThreadRanks, RandomDeathsInRandomSequencesHangNobody) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int world_size = 2 + seed % 3;
    const auto group = ThreadGroup::Create(world_size);
    group->SetFaults(seed % world_size, {.die_after = seed * 5 % 97});
    RunRanks(group, [&](Communicator& comm) {
      std::vector<std::unique_ptr<Bytes>> buffers;
      absl::Status status;
      uint32_t random = seed * 7919;
      for (int i = 0; i < 60; ++i) {
        random = random * 1664525 + 1013904223;
        const int64_t bytes = (random >> 8) % 20'000;
        buffers.push_back(
            std::make_unique<Bytes>(2 * bytes * comm.world_size()));
        std::byte* const data = buffers.back()->data();
        std::byte* const out = data + bytes * comm.world_size();
        // Nothing is synchronised, so that the queue is full when it happens.
        absl::StatusOr<Fence> fence =
            random % 3 == 0   ? comm.Broadcast("a", 0, 0, data, bytes)
            : random % 3 == 1 ? comm.AllGather("b", 0, data, out, bytes)
                              : comm.AllToAll("c", 0, data, out, bytes);
        status = fence.status();
        if (!fence.ok()) break;
      }
      // Queued work failed, or later calls were refused.
      status.Update(comm.device().Synchronize(comm.device().NowAll()));
      EXPECT_FALSE(status.ok());
      ExpectPoisoned(comm);
    });
  }
}

TEST(ThreadRanks, RefusesATimeLimitThatIsNone) {
  const std::unique_ptr<Device> device = NewDevice();
  for (const int64_t limit_ns :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(MakeThreadRank(ThreadGroup::Create(1), 0, device.get(),
                             {.time_limit_ns = limit_ns})
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace castor
