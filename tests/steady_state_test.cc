// Tests a run once it is warm: how much it moves, where it keeps what, and that
// an evaluation in between changes none of it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/philox.h"
#include "base/units.h"
#include "memory/exec/chunk_store.h"
#include "tests/case_generator.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr uint64_t kSeed = 20240302;

struct Traffic {
  int64_t h2d = 0, d2h = 0;
};

// Returns the bytes that the last step moved. Its plan must have been in use
// for a whole step before.
Traffic LastStep(const TrainingCase& c, const TrainingResult& result) {
  EXPECT_GE(c.steps, c.options.memory.warmup_steps + 2);
  EXPECT_EQ(static_cast<int64_t>(result.reports.size()), c.steps);
  const StepReport& last = result.reports.back();
  return {last.h2d_bytes, last.d2h_bytes};
}

TEST(SteadyState, AutoMovesNothingWhereEverythingFits) {
  for (int i = 0; i < 40; ++i) {
    const uint64_t seed = MixKey(kSeed, i);
    TrainingCase c = RandomModel(seed);
    Random random(seed, 1);
    c.evaluate_after = c.options.eval_batch = 0;
    MemoryOptions& memory = c.options.memory;
    memory.policy = FindPolicy("auto");
    memory.prefetch = random.Chance(0.5);
    memory.chunk_bytes = random.Pick<int64_t>({0, 300, 4096, 1 << 20});
    memory.warmup_steps = random.Uniform(1, 2);
    c.steps = memory.warmup_steps + 3;
    auto needs = FindNeeds(c);
    ASSERT_TRUE(needs.ok()) << needs.status();
    memory.device_bytes = needs->unmanaged_device;
    auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status() << Describe(c);
    ASSERT_FALSE(result->refusal.has_value()) << result->refusal_message;
    const Traffic traffic = LastStep(c, *result);
    EXPECT_EQ(traffic.h2d, 0) << Describe(c);
    EXPECT_EQ(traffic.d2h, 0) << Describe(c);
  }
}

// The careful plan of the warm-up has all optimizer states on the host. Where
// the machine has room for the run's own plan alone, the warm-up follows that
// one.
TEST(SteadyState, WarmUpTakesNoMoreThanTheMachineHas) {
  int careful = 0;
  for (int i = 0; i < 12; ++i) {
    TrainingCase c = RandomModel(MixKey(kSeed, i));
    c.evaluate_after = c.options.eval_batch = 0;
    c.world_size = 1;
    MemoryOptions& memory = c.options.memory;
    memory.policy = FindPolicy("auto");
    memory.warmup_steps = 1;
    c.steps = 3;
    auto needs = FindNeeds(c);
    ASSERT_TRUE(needs.ok()) << needs.status();
    memory.device_bytes = needs->unmanaged_device;
    int64_t machine = 0, taken = 0;
    c.after_step = [&](Trainer& trainer, int64_t) {
      machine = trainer.admission().machine_needed_bytes / 4 * 5;
      taken =
          trainer.arena_stats().peak_bytes + trainer.host_stats().peak_bytes;
      // Bytes that a plan reserves for sums on their way to the host may stay
      // unused.
      EXPECT_LE(trainer.host_stats().peak_bytes,
                trainer.predicted_host_peak_bytes());
      return absl::OkStatus();
    };
    auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status() << Describe(c);
    careful += taken > machine;
    memory.machine_share_bytes = machine;
    result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status() << Describe(c);
    ASSERT_FALSE(result->refusal.has_value()) << result->refusal_message;
    EXPECT_LE(taken, memory.machine_share_bytes) << Describe(c);
  }
  EXPECT_GT(careful, 0);
}

// Within each direction too: a byte saved one way pays for none the other way
// where both are full.
// Over all cases, not in each: auto plans for the least time with the durations
// that it measured, so a single plan may spend bytes where time is noisy.
TEST(SteadyState, AutoMovesFarLessThanCpu) {
  int64_t cpu_bytes = 0, auto_bytes = 0;
  for (int i = 0; i < 60; ++i) {
    const uint64_t seed = MixKey(kSeed, 1000 + i);
    TrainingCase c = RandomModel(seed);
    Random random(seed, 1);
    c.evaluate_after = c.options.eval_batch = 0;
    // Budgets from those in which little fits to those in which all does.
    const PlacementPolicy* const budgets_of =
        random.Pick({FindPolicy("auto"), FindPolicy("auto"), FindPolicy("auto"),
                     FindPolicy("cpu"), FindPolicy("cpu"), FindPolicy("cuda")});
    auto placed = RandomPlacement(c, random, /*most_ranks=*/1, budgets_of);
    ASSERT_TRUE(placed.ok()) << placed.status();
    c = *std::move(placed);
    c.options.planning.mistake = nullptr;  // which would cost bytes
    MemoryOptions& memory = c.options.memory;
    memory.warmup_steps = 1;
    memory.host_bytes = kUnlimitedBytes;
    c.steps = 4;
    memory.policy = FindPolicy("cpu");
    auto cpu = RunTraining(c);
    memory.policy = FindPolicy("auto");
    auto automatic = RunTraining(c);
    ASSERT_TRUE(cpu.ok()) << cpu.status() << Describe(c);
    ASSERT_TRUE(automatic.ok()) << automatic.status() << Describe(c);
    // Auto runs wherever cpu runs.
    ASSERT_EQ(automatic->refusal.has_value(), cpu->refusal.has_value())
        << Describe(c);
    if (cpu->refusal.has_value()) continue;
    const Traffic most = LastStep(c, *cpu);
    const Traffic traffic = LastStep(c, *automatic);
    cpu_bytes += most.h2d + most.d2h;
    auto_bytes += traffic.h2d + traffic.d2h;
  }
  std::printf("bytes per step, all cases: cpu %lld, auto %lld\n",
              static_cast<long long>(cpu_bytes),
              static_cast<long long>(auto_bytes));
  EXPECT_LT(4 * auto_bytes, 3 * cpu_bytes);
}

TEST(SteadyState, EvaluationsBetweenStepsLeaveTrainingAsItWas) {
  for (int i = 0; i < 40; ++i) {
    const uint64_t seed = MixKey(kSeed, 2000 + i);
    TrainingCase c = RandomModel(seed);
    Random random(seed, 1);
    c.other_batch = 0;  // one plan of training to compare
    c.evaluate_after = 1;
    c.options.eval_batch = random.Uniform(1, 5);
    c.steps = 5;
    TrainingCase without = ReferenceOf(c);
    without.evaluate_after = without.options.eval_batch = 0;
    auto reference = RunTraining(without);
    ASSERT_TRUE(reference.ok()) << reference.status();

    c.options.memory.policy = RandomPolicy(random);
    c.options.memory.chunk_bytes = random.Pick<int64_t>({0, 1000, 10000});
    auto needs = FindNeeds(c);
    ASSERT_TRUE(needs.ok()) << needs.status();
    c.options.memory.device_bytes =
        needs->smallest_device + random.Pick<int64_t>({0, 256, 2560, 25600});
    // Several batches after every step; the training's plan stays the same one.
    const Plan* plan = nullptr;
    std::vector<double> first_losses;
    c.after_step = [&](Trainer& trainer, int64_t step) -> absl::Status {
      if (step > c.options.memory.warmup_steps && plan == nullptr) {
        plan = trainer.training_plan();
      }
      int64_t index = 0;
      StepShape shape = c.options.shape;
      shape.batch = c.options.eval_batch;
      auto next = [&]() -> absl::StatusOr<MicroBatch> {
        MicroBatch batch = RandomMicroBatch(c.seed + 2, index++, shape,
                                            VocabularyOf(c), LabelsOf(c));
        FitTargets(c, shape.length, &batch);
        return batch;
      };
      auto once = trainer.Evaluate(3, next);
      if (!once.ok()) return once.status();
      index = 0;
      auto twice = trainer.Evaluate(3, next);
      if (!twice.ok()) return twice.status();
      EXPECT_EQ(*once, *twice);
      if (plan != nullptr) {
        EXPECT_EQ(trainer.training_plan(), plan);
      }
      return absl::OkStatus();
    };
    auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status() << Describe(c);
    ASSERT_FALSE(result->refusal.has_value()) << result->refusal_message;
    EXPECT_EQ(result->state_sha256, reference->state_sha256) << Describe(c);
    EXPECT_EQ(result->losses, reference->losses) << Describe(c);
  }
}

// Values of all frozen parameters, one after the other.
absl::StatusOr<std::vector<float>> FrozenValues(Trainer& trainer) {
  std::vector<float> values;
  absl::Status status = VisitModelState(
      trainer.parameters(), trainer.store(), /*with_states=*/true,
      [&](const Parameter& parameter, StatePart part, int64_t,
          absl::Span<const float> piece) {
        if (parameter.trainable) return absl::OkStatus();
        EXPECT_EQ(part, StatePart::kMaster) << parameter.name;
        values.insert(values.end(), piece.begin(), piece.end());
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return values;
}

TEST(SteadyState, FrozenParametersCostNoGradientsAndNoStates) {
  int64_t with_frozen = 0;
  for (int i = 0; i < 40; ++i) {
    TrainingCase c = RandomModel(MixKey(kSeed, 3000 + i));
    if (c.frozen.empty()) continue;
    c.options.loss_scale.initial = 0x1p4;  // so that no step is skipped
    c.options.planning.speculation.on =
        false;  // banks are optimizer states, too
    c.options.memory.policy =
        i % 2 == 0 ? FindPolicy("cpu") : FindPolicy("auto");
    std::vector<float> before;
    TrainingCase untrained = c;
    untrained.steps = 0;
    auto initial = RunTraining(untrained, [&](Trainer& trainer) {
      auto values = FrozenValues(trainer);
      if (!values.ok()) return values.status();
      before = *std::move(values);
      return absl::OkStatus();
    });
    ASSERT_TRUE(initial.ok()) << initial.status() << Describe(c);
    auto result = RunTraining(c, [&](Trainer& trainer) -> absl::Status {
      int64_t trainable = 0, all = 0, states = 0;
      const ChunkLayout& layout = trainer.layout();
      for (int64_t i = 0; i < layout.num_chunks(); ++i) {
        const ChunkSpec& chunk = layout.chunk(ChunkId(i));
        all += chunk.elements;
        if (chunk.trainable) trainable += chunk.elements;
        // Blocks are of whole units of 256 bytes.
        states += RoundUp(
            layout.state_bytes(ChunkId(i), c.options.shape.micro_batches > 1),
            256);
      }
      states += RoundUp(4 * layout.num_margins(), 256);  // fp32 each
      EXPECT_LT(trainable, all);
      // Master, m and v; the sum of micro batches counts as gradients.
      const AdmissionReport& report = trainer.admission();
      EXPECT_EQ(report.device.optimizer_states + report.host.optimizer_states,
                layout.states.Bytes(trainable, /*accumulate=*/false));
      EXPECT_EQ(report.device.gradients + report.host.gradients,
                c.options.shape.micro_batches > 1 ? 4 * trainable : 0);
      EXPECT_EQ(trainer.arena_stats().used[Category::kOptimizerStates] +
                    trainer.host_stats().used[Category::kOptimizerStates],
                states);
      auto values = FrozenValues(trainer);
      if (!values.ok()) return values.status();
      EXPECT_EQ(*values, before) << "a frozen parameter changed";
      return absl::OkStatus();
    });
    ASSERT_TRUE(result.ok()) << result.status() << Describe(c);
    ASSERT_FALSE(result->refusal.has_value());
    EXPECT_NE(result->state_sha256, initial->state_sha256) << Describe(c);
    ++with_frozen;
  }
  EXPECT_GT(with_frozen, 10);
}

// From the second step on a plan whose blocks have addresses, activations that
// go to the host and come back among them.
TEST(SteadyState, MovesNoBlockThatHasAnAddress) {
  int64_t planned = 0, away = 0;  // steps
  for (int i = 0; i < 24; ++i) {
    const uint64_t seed = MixKey(kSeed, 4000 + i);
    TrainingCase c = RandomModel(seed);
    Random random(seed, 1);
    c.evaluate_after = c.options.eval_batch = 0;
    c.other_batch = c.other_length = 0;
    c.options.activation_checkpointing = ActivationCheckpointing::kAuto;
    c.options.planning.offloaded_blocks = {true, true, true};
    c.options.memory.policy = FindPolicy("auto");
    c.options.memory.chunk_bytes = random.Pick<int64_t>({0, 1000, 10000});
    c.steps = 6;
    auto needs = FindNeeds(c);
    ASSERT_TRUE(needs.ok()) << needs.status();
    c.options.memory.device_bytes =
        needs->smallest_device +
        (needs->unmanaged_device - needs->smallest_device) *
            random.Uniform(1, 4) / 8;
    const Plan* plan = nullptr;  // that the step before followed, too
    int64_t compactions = 0, back = 0;
    c.after_step = [&](Trainer& trainer, int64_t) {
      const Plan* const now = trainer.training_plan();
      if (now != nullptr && now == plan && now->addresses.has_value()) {
        EXPECT_EQ(trainer.arena_stats().compactions, compactions);
        ++planned;
        away += trainer.activation_bytes_back() > back;
      }
      EXPECT_EQ(trainer.arena_stats().misplaced, 0);
      plan = now;
      compactions = trainer.arena_stats().compactions;
      back = trainer.activation_bytes_back();
      return absl::OkStatus();
    };
    auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status() << Describe(c);
    ASSERT_FALSE(result->refusal.has_value()) << result->refusal_message;
  }
  std::printf(
      "%d steps with planned addresses, %d of them with activations "
      "that came back\n",
      static_cast<int>(planned), static_cast<int>(away));
  EXPECT_GT(planned, 20);
  EXPECT_GT(away, 5);
}

}  // namespace
}  // namespace castor::testing
