// Training in fp16: its loss scale, the steps that it skips, and its end.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "run/optim/adam/adam.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

TrainingCase Small() {
  TrainingCase c;
  c.model.n_layer = 2;
  c.model.n_head = 2;
  c.model.n_embd = 24;
  c.model.n_positions = 12;
  c.model.vocab_size = 40;
  c.model.resid_pdrop = c.model.embd_pdrop = c.model.attn_pdrop = 0;
  c.dtype = DType::kFloat16;
  c.options.shape = {.batch = 2, .length = 12, .micro_batches = 2};
  c.options.optimizer.gradient_clipping = 1;
  c.options.learning_rate = [](int64_t step) {
    return 1e-2 / static_cast<double>(step);
  };
  // The same in every step, so that a skipped one can be made up for.
  c.data = [shape = c.options.shape](int64_t index) {
    return RandomMicroBatch(5, index % shape.micro_batches, shape, 40);
  };
  return c;
}

TEST(LossScale, LearnsWhatFp32Learns) {
  TrainingCase c = Small();
  c.steps = 20;
  const auto half = RunTraining(c);
  ASSERT_TRUE(half.ok()) << half.status();
  c.dtype = DType::kFloat32;
  const auto single = RunTraining(c);
  ASSERT_TRUE(single.ok()) << single.status();
  ASSERT_LT(single->losses.back(), 0.9 * single->losses.front());
  for (size_t i = 0; i < single->losses.size(); ++i) {
    // Some twenty roundings of 2^-11 on the way to a loss.
    EXPECT_NEAR(half->losses[i], single->losses[i], 20 * 0x1p-11) << i;
  }
  EXPECT_EQ(half->state.skipped_steps, 0);
  EXPECT_EQ(half->state.loss_scale->scale, 65536);
  EXPECT_FALSE(single->state.loss_scale.has_value());
}

// Gradients that are too small for fp16 vanish without a scale.
TEST(LossScale, KeepsGradientsThatWouldVanish) {
  TrainingCase c = Small();
  c.options.optimizer.gradient_clipping = 0;
  // Many targets, none of them learned: each row's gradient is small.
  c.options.shape = {.batch = 64, .length = 12, .micro_batches = 4};
  c.data = nullptr;
  c.steps = 1;
  c.options.optimizer.rule =
      std::make_shared<Adam>(AdamOptions{.betas = {0.5, 0.999}});
  const auto zeros_in_m = [](const TrainingCase& run) {
    int64_t zeros = 0;
    const auto result = RunTraining(run, [&](Trainer& trainer) -> absl::Status {
      for (const auto& parameter : trainer.parameters()) {
        std::vector<float> m(parameter->elements());
        absl::Status status = trainer.store().ReadState(
            parameter->chunk, Adam::kM, parameter->offset,
            parameter->offset + parameter->elements(), m.data());
        if (!status.ok()) return status;
        for (const float value : m) zeros += value == 0;
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.ok()) << result.status();
    return zeros;
  };
  c.options.loss_scale = {.dynamic = false, .initial = 0x1p-8};
  const int64_t vanished = zeros_in_m(c);
  c.options.loss_scale.initial = 0x1p12;
  EXPECT_LT(zeros_in_m(c), vanished);
}

// Skipped steps leave no trace but their number: neither Adam's t nor the
// learning rate has moved on.
TEST(LossScale, ASkippedStepIsAsIfItHadNotBeen) {
  for (const PlacementPolicy* policy :
       {FindPolicy("cuda"), FindPolicy("cpu")}) {
    for (const int world_size : {1, 2}) {
      TrainingCase c = Small();
      c.options.memory.policy = policy;
      c.world_size = world_size;
      c.options.loss_scale = {.initial = 0x1p30, .hysteresis = 1};
      c.steps = 40;
      const auto all = RunTraining(c);
      ASSERT_TRUE(all.ok()) << all.status();
      const int64_t skipped = all->state.skipped_steps;
      ASSERT_GT(skipped, 5);
      ASSERT_LT(skipped, 30);
      const std::vector<std::string> overflows = Overflows(*all);
      ASSERT_EQ(overflows.size(), 40u);
      double scale = 0x1p30;
      for (int64_t i = 0; i < 40; ++i) {
        // Each of them halves the scale; from then on nothing overflows.
        EXPECT_EQ(overflows[i].empty(), i >= skipped) << i;
        EXPECT_EQ(all->reports[i].loss_scale, scale);
        if (i < skipped) scale /= 2;
        EXPECT_EQ(all->reports[i].next_loss_scale, scale);
        if (i < skipped) {
          EXPECT_EQ(all->losses[i], all->losses[0]) << i;
        }
      }
      EXPECT_EQ(all->state.loss_scale->scale, scale);

      TrainingCase good = c;
      good.options.loss_scale.initial = scale;
      good.steps = 40 - skipped;
      const auto undisturbed = RunTraining(good);
      ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
      EXPECT_EQ(undisturbed->state.skipped_steps, 0);
      EXPECT_EQ(all->state_sha256, undisturbed->state_sha256);
      EXPECT_EQ(all->gradient_norm, undisturbed->gradient_norm);
    }
  }
}

// Backward comes to the head first, so what it makes infinite it gives to all.
TEST(LossScale, AnOverflowIsNamedByWhereBackwardMetItFirst) {
  TrainingCase c = Small();
  c.model.tie_word_embeddings = false;
  c.options.loss_scale = {.dynamic = false, .initial = 0x1p60};
  c.steps = 1;
  auto result = RunTraining(c);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Overflows(*result), std::vector<std::string>{"lm_head.weight"});
  // Where the head's own weight is frozen, the norm before it is named.
  c.frozen = {"lm_head.weight"};
  result = RunTraining(c);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Overflows(*result),
            std::vector<std::string>{"transformer.ln_f.bias"});
  EXPECT_EQ(result->gradient_norm, std::numeric_limits<double>::infinity());
}

TEST(LossScale, EndsTrainingWhereItCannotSink) {
  for (const int world_size : {1, 2}) {
    TrainingCase c = Small();
    c.world_size = world_size;
    c.options.loss_scale = {
        .initial = 0x1p41, .hysteresis = 2, .minimum = 0x1p40};
    c.steps = 6;
    // Steps 1 (let pass), 2 (halves) and 3 (cannot) overflow; 4 does not begin.
    const auto result = RunTraining(c);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange)
        << result.status();
    for (const char* part :
         {"step 3 ", "fp16.min_loss_scale", "transformer."}) {
      EXPECT_TRUE(absl::StrContains(result.status().message(), part))
          << result.status();
    }
    // The state from before is still there, and may be read and saved.
    c.steps = 3;
    c.after_step = [](Trainer& trainer, int64_t step) {
      absl::Status drained = trainer.Drain();
      EXPECT_EQ(trainer.cannot_go_on().ok(), step < 3);
      return drained;
    };
    const auto until = RunTraining(c);
    ASSERT_TRUE(until.ok()) << until.status();
    EXPECT_EQ(until->state.skipped_steps, 3);
    c.after_step = nullptr;
    c.steps = 0;
    const auto initial = RunTraining(c);
    ASSERT_TRUE(initial.ok()) << initial.status();
    EXPECT_EQ(until->state_sha256, initial->state_sha256);
  }
}

// An overflow in forward is one as well: its gradients are not finite. Here the
// first update puts products beyond 65504.
TEST(LossScale, ALossThatIsNotFiniteAfterAnUpdateSkipsItsStep) {
  TrainingCase c = Small();
  c.options.learning_rate = [](int64_t) { return 1e4; };
  c.options.loss_scale.initial = 256;
  c.steps = 3;
  const auto result = RunTraining(c);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::isfinite(result->losses[0]));
  EXPECT_FALSE(std::isfinite(result->losses[1]));
  EXPECT_EQ(result->state.skipped_steps, 2);
}

// No scale helps a loss that is not finite before any update: a run went on to
// its end with every step skipped.
TEST(LossScale, AFirstLossThatIsNotFiniteIsRefused) {
  for (const bool dynamic : {false, true}) {
    TrainingCase c = Small();
    c.options.loss_scale.dynamic = dynamic;
    c.model.initializer_range = 300;  // products beyond 65504
    c.steps = 3;
    const absl::Status status = RunTraining(c).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "before any update"))
        << status;
  }
}

}  // namespace
}  // namespace castor::testing
