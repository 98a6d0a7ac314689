// Training on several ranks, as threads of one process: what it keeps, what it
// sends, and how it ends when a rank does. That its bits are those of one rank
// is promises_test.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "device/comm/thread_ranks.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

TrainingCase Small(const PlacementPolicy* policy, int world_size) {
  TrainingCase c;
  c.model.n_layer = 2;
  c.model.n_head = 2;
  c.model.n_embd = 16;
  c.model.n_positions = 8;
  c.model.vocab_size = 32;
  c.dtype = DType::kBFloat16;
  c.options.shape = {.batch = 1, .length = 8, .micro_batches = world_size};
  c.options.memory.policy = policy;
  c.options.memory.chunk_bytes = 4096;
  c.world_size = world_size;
  return c;
}

// Runs each rank with a case of its own.
std::vector<absl::StatusOr<TrainingResult>> RunRanks(
    const std::shared_ptr<ThreadGroup>& group,
    const std::vector<TrainingCase>& cases) {
  const int world_size = static_cast<int>(cases.size());
  std::vector<absl::StatusOr<TrainingResult>> results(
      world_size, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<StatePiece> pieces;
      results[rank] = RunRank(cases[rank],
                              {.rank = rank,
                               .world_size = world_size,
                               .join =
                                   [&](Device* device) {
                                     return MakeThreadRank(
                                         group, rank, device,
                                         {.time_limit_ns = 60'000'000'000});
                                   }},
                              nullptr, &pieces);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

int64_t NetworkBytes(const TrainingResult& result) {
  return result.reports.back().network_bytes;
}

TEST(Ranks, KeepOneShardOfEverythingAtHome) {
  TrainingCase one = Small(FindPolicy("cpu"), 1);
  one.options.shape.micro_batches = 4;  // sums, as on four ranks
  const TrainingCase four = Small(FindPolicy("cpu"), 4);
  auto alone = RunTraining(one);
  auto shared = RunTraining(four);
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_TRUE(shared.ok()) << shared.status();
  const TierReport& whole = alone->admission.host;
  const TierReport& shard = shared->admission.host;
  // A rank has a quarter, and the padding that makes shards equal.
  EXPECT_LT(shard.parameters, whole.parameters * 3 / 10);
  EXPECT_LT(shard.optimizer_states, whole.optimizer_states * 3 / 10);
  EXPECT_LT(shard.gradients, whole.gradients * 3 / 10);
}

// The lower bound: with room for everything, N ranks with fp32 sums send each
// payload's parts once per micro batch and the parameters once per step.
TEST(Ranks, SendPartsOncePerMicroBatchAndParametersOncePerStep) {
  for (const int64_t accumulation : {1, 2}) {
    TrainingCase c = Small(FindPolicy("cuda"), 4);
    c.options.shape.micro_batches *= accumulation;
    int64_t others = 0;
    auto result = RunTraining(c, [&](Trainer& trainer) {
      others = 0;
      for (int64_t i = 0; i < trainer.layout().num_chunks(); ++i) {
        others += trainer.layout().payload_bytes(ChunkId(i)) * 3 / 4;
      }
      return absl::OkStatus();
    });
    ASSERT_TRUE(result.ok()) << result.status();
    // A micro batch that is not the last has its parameters back after it.
    EXPECT_EQ(NetworkBytes(*result), 2 * accumulation * others);
  }
}

TEST(Ranks, EndWithTheReasonOfTheOneThatCannotGoOn) {
  for (const PlacementPolicy* policy :
       {FindPolicy("cpu"), FindPolicy("cuda")}) {
    std::vector<TrainingCase> cases(3, Small(policy, 3));
    for (TrainingCase& c : cases) c.steps = 5;
    const auto shape = cases[0].options.shape;
    cases[1].data = [&](int64_t index) {
      MicroBatch batch = RandomMicroBatch(1, index, shape, 32);
      if (index >= 6) batch.tokens.pop_back();  // of step 3
      return batch;
    };
    const auto results = RunRanks(ThreadGroup::Create(3), cases);
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_FALSE(results[rank].ok());
      EXPECT_TRUE(absl::StrContains(results[rank].status().message(),
                                    "one of them has 7"))
          << rank << ": " << results[rank].status();
      if (rank == 1) continue;
      EXPECT_TRUE(absl::StrContains(results[rank].status().message(), "rank 1"))
          << results[rank].status();
    }
  }
}

TEST(Ranks, EndWhenOneDiesInTheMiddleOfAStep) {
  for (int64_t messages = 5; messages < 200; messages += 39) {
    const auto group = ThreadGroup::Create(3);
    group->SetFaults(2, {.die_after = messages});
    std::vector<TrainingCase> cases(3, Small(FindPolicy("cpu"), 3));
    for (TrainingCase& c : cases) c.steps = 50;
    const auto results = RunRanks(group, cases);
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_FALSE(results[rank].ok()) << messages;
      if (rank == 2) continue;
      EXPECT_TRUE(absl::StrContains(results[rank].status().message(), "rank 2"))
          << results[rank].status();
    }
  }
}

TEST(Ranks, RefuseToStartWithDifferentSettings) {
  std::vector<TrainingCase> cases(2, Small(FindPolicy("cpu"), 2));
  cases[1].options.memory.warmup_steps = 2;
  for (const auto& result : RunRanks(ThreadGroup::Create(2), cases)) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition)
        << result.status();
    EXPECT_TRUE(absl::StrContains(result.status().message(), "settings"))
        << result.status();
  }
}

TEST(Ranks, AreRefusedMicroBatchesThatTheyCannotShare) {
  TrainingCase c = Small(FindPolicy("cpu"), 2);
  c.options.shape.micro_batches = 3;
  const auto result = RunTraining(c);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor::testing
