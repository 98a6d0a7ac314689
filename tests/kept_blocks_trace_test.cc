// The trace of any choice of kept blocks, derived from that of one choice,
// against the dry pass of the trainer's own code with that choice: operator by
// operator and byte by byte, over random models.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/name_pattern.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/blocks/offloaded_blocks.h"
#include "memory/plan/check/trace_check.h"
#include "memory/plan/simulate/step_blocks.h"
#include "models/families.h"
#include "models/family.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/micro_batch.h"
#include "runtime/train/trainer.h"
#include "tests/case_generator.h"
#include "tests/random.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

const Roofline kRoofline = {.flops_per_s = 1e9, .bytes_per_s = 1e9};

// The model of a random case, with chunks.
class Dry {
 public:
  explicit Dry(const TrainingCase& c) : shape_(c.options.shape) {
    const ModelConfig config = ModelConfigOf(c);
    engine_ = std::make_unique<Engine>(c.dtype, c.seed);
    const ZeroInit scope(*engine_);
    model_ = models::FamilyOf(config).Make(*config.architecture);
    for (const auto& parameter : engine_->parameters()) {
      parameter->trainable = !MatchesAnyPattern(c.frozen, parameter->name);
    }
    TrainerOptions options = c.options;
    options.admit_only = true;
    auto trainer = Trainer::Create(engine_.get(), model_.get(), options);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    if (trainer.ok()) layout_ = (*trainer)->layout();
    trainer = absl::UnknownError("gone");
    engine_->SetLayout(&layout_);
  }

  StepTrace Trace(std::optional<KeptBlocks> kept, bool with_blocks,
                  const std::vector<bool>& offloaded = {}) {
    engine_->set_kept_blocks(std::move(kept));
    const bool accumulate = shape_.micro_batches > 1;
    auto trace = with_blocks ? DryRunWithBlocks(*engine_, *model_, shape_,
                                                &layout_, accumulate, kRoofline)
                             : DryRun(*engine_, *model_, shape_, &layout_,
                                      accumulate, kRoofline, offloaded);
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.value_or(StepTrace());
  }

 private:
  const StepShape shape_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Model> model_;
  ChunkLayout layout_;
};

TEST(KeptBlocksTrace, IsThatOfADryPassWithTheSameChoice) {
  int64_t choices = 0, several = 0, without = 0, leaving = 0;
  constexpr int kModels = 60;
  for (uint64_t seed = 1; seed <= kModels; ++seed) {
    TrainingCase c = RandomModel(seed);
    c.options.shape.micro_batches =
        std::min<int64_t>(c.options.shape.micro_batches, 3);
    SCOPED_TRACE(Describe(c));
    Dry dry(c);
    const StepTrace none = dry.Trace(KeptBlocks(), /*with_blocks=*/true);
    ASSERT_TRUE(CheckTrace(none).ok()) << CheckTrace(none);
    const int64_t blocks = CountBlocks(none).blocks;
    // Where nothing before or in a block is trained, nothing is kept in it.
    without += blocks == 0;
    several += blocks > 1;
    Random random(seed, 1);
    StepTrace from = none;
    for (int i = 0; i < 4; ++i) {
      KeptBlocks kept;
      for (int64_t b = 0; b < 3; ++b) kept.push_back(random.Chance(0.5));
      const StepTrace derived = WithKeptBlocks(from, kept);
      const StepTrace oracle = dry.Trace(kept, /*with_blocks=*/i == 0);
      ASSERT_EQ(derived.ops.size(), oracle.ops.size());
      for (size_t t = 0; t < derived.ops.size(); ++t) {
        ASSERT_EQ(derived.ops[t].name, oracle.ops[t].name) << t;
        ASSERT_EQ(derived.ops[t].non_model_peak_bytes,
                  oracle.ops[t].non_model_peak_bytes)
            << t << " " << derived.ops[t].name;
        ASSERT_EQ(derived.ops[t], oracle.ops[t])
            << t << " " << derived.ops[t].name;
      }
      EXPECT_EQ(derived.signature, oracle.signature);
      EXPECT_EQ(derived.chunks, oracle.chunks);
      if (i == 0) {
        EXPECT_EQ(derived.blocks, oracle.blocks);
      }
      ASSERT_TRUE(CheckTrace(derived).ok()) << CheckTrace(derived);
      // And with the activations of some of those kept as chunks.
      std::vector<bool> offloaded;
      for (size_t b = 0; b < kept.size(); ++b) {
        offloaded.push_back(kept[b] && random.Chance(0.6));
      }
      const StepTrace away = WithOffloadedBlocks(derived, offloaded);
      const StepTrace counted =
          dry.Trace(kept, /*with_blocks=*/false, OffloadedBlocksOf(away));
      ASSERT_TRUE(CheckTrace(away).ok()) << CheckTrace(away);
      ASSERT_EQ(away.ops.size(), counted.ops.size());
      for (size_t t = 0; t < away.ops.size(); ++t) {
        ASSERT_EQ(away.ops[t], counted.ops[t]) << t << " " << away.ops[t].name;
      }
      EXPECT_EQ(away.chunks, counted.chunks);
      EXPECT_EQ(away.signature, counted.signature);
      EXPECT_TRUE(SaysWhenTensorsLive(counted));
      leaving += OffloadsActivations(away);
      from = away;
      choices += blocks > 0;
    }
  }
  EXPECT_GT(choices, 2 * kModels);
  EXPECT_GT(several, kModels / 3);
  EXPECT_GT(leaving, kModels);
  EXPECT_LT(without, kModels / 4);
}

absl::StatusOr<AdmissionReport> Admitted(
    TrainingCase c, int64_t device_bytes,
    ActivationCheckpointing checkpointing) {
  c.options.memory = {.policy = DefaultPolicy(), .device_bytes = device_bytes};
  c.options.activation_checkpointing = checkpointing;
  Engine engine(c.dtype, c.seed);
  const ZeroInit scope(engine);
  const ModelConfig config = ModelConfigOf(c);
  const auto model = models::FamilyOf(config).Make(*config.architecture);
  for (const auto& parameter : engine.parameters()) {
    parameter->trainable = !MatchesAnyPattern(c.frozen, parameter->name);
  }
  c.options.admit_only = true;
  auto trainer = Trainer::Create(&engine, model.get(), c.options);
  if (!trainer.ok()) return trainer.status();
  return (*trainer)->admission();
}

// With estimated durations: the smallest budgets, and no step that is foreseen
// to be longer than that of a fixed choice.
TEST(ChosenBlocks, FitWhereNoneKeptFitAndAreForeseenToBeNoSlower) {
  constexpr auto kNone = ActivationCheckpointing::kNone;
  constexpr auto kBlock = ActivationCheckpointing::kBlock;
  constexpr auto kAuto = ActivationCheckpointing::kAuto;
  int64_t faster = 0, kept_some = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const TrainingCase c = RandomModel(seed);
    SCOPED_TRACE(Describe(c));
    const auto block = Admitted(c, kUnlimitedBytes, kBlock);
    const auto unlimited = Admitted(c, kUnlimitedBytes, kAuto);
    ASSERT_TRUE(block.ok() && unlimited.ok()) << unlimited.status();
    const int64_t least = block->smallest_device_budget_bytes;
    const int64_t most = unlimited->unmanaged_device_bytes;
    EXPECT_EQ(unlimited->smallest_device_budget_bytes, least);
    EXPECT_GE(most, block->unmanaged_device_bytes);
    EXPECT_EQ(unlimited->forecast.blocks.kept,
              unlimited->forecast.blocks.blocks);
    const absl::Status refused = Admitted(c, least - 1, kAuto).status();
    EXPECT_EQ(refused, Admitted(c, least - 1, kBlock).status());
    EXPECT_TRUE(absl::IsResourceExhausted(refused));
    for (const double share : {0.0, 0.2, 0.5}) {
      const int64_t budget =
          least +
          static_cast<int64_t>(share * static_cast<double>(most - least));
      const auto chosen = Admitted(c, budget, kAuto);
      const auto none = Admitted(c, budget, kNone);
      const auto remade = Admitted(c, budget, kBlock);
      ASSERT_TRUE(chosen.ok() && remade.ok()) << chosen.status();
      int64_t better_ns = remade->forecast.step_ns;
      if (none.ok()) better_ns = std::min(better_ns, none->forecast.step_ns);
      EXPECT_LE(chosen->forecast.step_ns, better_ns) << share;
      EXPECT_LE(chosen->device.total(), budget);
      faster += chosen->forecast.step_ns < better_ns;
      kept_some +=
          chosen->forecast.blocks.kept > 0 &&
          chosen->forecast.blocks.kept < chosen->forecast.blocks.blocks;
    }
  }
  EXPECT_GT(faster, 0);
  EXPECT_GT(kept_some, 0);
}

}  // namespace
}  // namespace castor::testing
