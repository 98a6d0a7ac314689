// Training on several ranks, as threads of one process: what it keeps, what it
// sends, and how it ends when a rank does. That its bits are those of one rank
// is promises_test.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/comm/thread_ranks.h"
#include "run/optim/testing/rule_for_test.h"
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

// A program that gave Adam to one rank and AdamW to another trained, each rank
// its own way, and so with another decay or another rate.
TEST(Ranks, AreNotStartedWithOtherOptions) {
  const struct {
    const char* said;
    std::function<void(TrainingCase& c)> change;
  } kCases[] = {
      {"optimizer.type is \"Adam\", on rank 0 \"AdamW\"",
       [](TrainingCase& c) { c.options.optimizer.rule = RuleForTest("Adam"); }},
      {"optimizer.params.betas is [0.9,0.95], on rank 0 [0.9,0.999]",
       [](TrainingCase& c) {
         c.options.optimizer.rule =
             RuleForTest("AdamW", R"({"betas": [0.9, 0.95]})");
       }},
      {"gradient_clipping is 1.0000000001, on rank 0 0.0",
       [](TrainingCase& c) {
         c.options.optimizer.gradient_clipping = 1.0000000001;
       }},
      {"parameters.transformer.wte.weight.weight_decay is 0.1, on rank 0 0.0",
       [](TrainingCase& c) {
         c.options.weight_decay = [](const Parameter& parameter) {
           return parameter.name == "transformer.wte.weight" ? 0.1 : 0.0;
         };
       }},
      {"parameters.transformer.wpe.weight.trainable is false, on rank 0 true",
       [](TrainingCase& c) { c.frozen = {"*wpe*"}; }},
      {"parameters.transformer.h.2.attn.c_attn.bias.elements is 48, on rank 0 "
       "absent",
       [](TrainingCase& c) { c.model.n_layer = 3; }},
      {"type is \"fp32\", on rank 0 \"bf16\"",
       [](TrainingCase& c) { c.dtype = DType::kFloat32; }},
      {"shape.batch is 2, on rank 0 1",
       [](TrainingCase& c) { c.options.shape.batch = 2; }},
      {"shape.length is 4, on rank 0 8",
       [](TrainingCase& c) { c.options.shape.length = 4; }},
      {"shape.micro_batches is 2, on rank 0 1",
       [](TrainingCase& c) { c.options.shape.micro_batches = 4; }},
      {"eval_batch is 1, on rank 0 0",
       [](TrainingCase& c) { c.options.eval_batch = 1; }},
      {"seed is 2, on rank 0 1", [](TrainingCase& c) { c.seed = 2; }},
      {"loss_scale.dynamic is false, on rank 0 true",
       [](TrainingCase& c) { c.options.loss_scale.dynamic = false; }},
      {"loss_scale.initial is 4.0, on rank 0 65536.0",
       [](TrainingCase& c) { c.options.loss_scale.initial = 4; }},
      {"loss_scale.loss_scale_window is 5, on rank 0 1000",
       [](TrainingCase& c) { c.options.loss_scale.window = 5; }},
      {"loss_scale.hysteresis is 3, on rank 0 2",
       [](TrainingCase& c) { c.options.loss_scale.hysteresis = 3; }},
      {"loss_scale.min_loss_scale is 2.0, on rank 0 1.0",
       [](TrainingCase& c) { c.options.loss_scale.minimum = 2; }},
      {"memory.placement_policy is \"auto\", on rank 0 \"cpu\"",
       [](TrainingCase& c) { c.options.memory.policy = FindPolicy("auto"); }},
      {"memory.device_memory is 536870912, on rank 0 1073741824",
       [](TrainingCase& c) { c.options.memory.device_bytes = 1 << 29; }},
      {"memory.host_memory is 1073741824, on rank 0",
       [](TrainingCase& c) { c.options.memory.host_bytes = 1 << 30; }},
      {"memory.pinned_memory is 1073741824, on rank 0",
       [](TrainingCase& c) { c.options.memory.pinned_bytes = 1 << 30; }},
      {"memory.chunk_size is 8192, on rank 0 4096",
       [](TrainingCase& c) { c.options.memory.chunk_bytes = 8192; }},
      {"memory.gpu_margin_mem_ratio is 0.5, on rank 0 1.0",
       [](TrainingCase& c) { c.options.memory.gpu_margin_mem_ratio = 0.5; }},
      {"memory.warmup_steps is 2, on rank 0 1",
       [](TrainingCase& c) { c.options.memory.warmup_steps = 2; }},
      {"memory.prefetch is false, on rank 0 true",
       [](TrainingCase& c) { c.options.memory.prefetch = false; }},
      {"memory.activation_checkpointing is \"auto\", on rank 0 \"none\"",
       [](TrainingCase& c) {
         c.options.activation_checkpointing = ActivationCheckpointing::kAuto;
       }},
      {"device.bus_bytes_per_s is 1000000000.0, on rank 0 0.0",
       [](TrainingCase& c) { c.options.bus_bytes_per_s = 1e9; }},
      {"speculation.on is false, on rank 0 true",
       [](TrainingCase& c) { c.options.planning.speculation.on = false; }},
      {"speculation.first_wait is 3, on rank 0 2",
       [](TrainingCase& c) { c.options.planning.speculation.first_wait = 3; }},
      {"speculation.longest_wait is 3, on rank 0 1024",
       [](TrainingCase& c) {
         c.options.planning.speculation.longest_wait = 3;
       }},
      {"speculation.least_gain is -1.0, on rank 0",
       [](TrainingCase& c) { c.options.planning.speculation.least_gain = -1; }},
      {"watch.settling_steps is 5, on rank 0 4",
       [](TrainingCase& c) { c.options.planning.watch.settling_steps = 5; }},
      {"watch.most_settling_steps is 5, on rank 0 12",
       [](TrainingCase& c) {
         c.options.planning.watch.most_settling_steps = 5;
       }},
      {"watch.drift_steps is 5, on rank 0 8",
       [](TrainingCase& c) { c.options.planning.watch.drift_steps = 5; }},
      {"plan_addresses is false, on rank 0 true",
       [](TrainingCase& c) { c.options.planning.addresses = false; }},
      {"offloaded_blocks is [true], on rank 0 []",
       [](TrainingCase& c) { c.options.planning.offloaded_blocks = {true}; }},
  };
  for (const auto& each : kCases) {
    TrainingCase c = Small(FindPolicy("cpu"), 2);
    c.options.memory.device_bytes = 1 << 30;
    std::vector<TrainingCase> cases(2, c);
    each.change(cases[1]);
    for (const auto& result : RunRanks(ThreadGroup::Create(2), cases)) {
      EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << each.said << "\n"
                                                            << result.status();
      EXPECT_TRUE(absl::StrContains(result.status().message(),
                                    absl::StrCat("rank 1: ", each.said)))
          << each.said << "\n"
          << result.status();
    }
  }
}

// Rates are each step's: what one rank has updated with another one is neither
// trained on nor saved.
TEST(Ranks, DoNoStepWithOtherRates) {
  std::vector<TrainingCase> cases(2, Small(FindPolicy("cpu"), 2));
  for (TrainingCase& c : cases) c.steps = 5;
  cases[1].options.learning_rate = [](int64_t step) {
    return step < 3 ? 1e-3 : 1.0000000001e-3;
  };
  for (const auto& result : RunRanks(ThreadGroup::Create(2), cases)) {
    EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
    EXPECT_EQ(result.status().message(),
              "rank 1: optimizer.params.lr: the learning rate of step 3 is "
              "0.0010000000001, on rank 0 0.001: give all ranks the same");
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

TEST(Ranks, AreRefusedMicroBatchesThatTheyCannotShare) {
  TrainingCase c = Small(FindPolicy("cpu"), 2);
  c.options.shape.micro_batches = 3;
  const auto result = RunTraining(c);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor::testing
