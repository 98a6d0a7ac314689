// A plan that fails its proof does not end the run, and changes nothing but its
// speed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/case_generator.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  std::string state_sha256;
  std::string note;
};

Outcome Train(const TrainingCase& c) {
  Outcome outcome;
  const auto result = RunTraining(c, [&](Trainer& trainer) {
    // Ranks one at a time.
    const std::string note = trainer.TakePlanNote();
    EXPECT_EQ(trainer.TakePlanNote(), "");
    EXPECT_TRUE(outcome.note.empty() || note == outcome.note) << note;
    outcome.note = note;
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return outcome;
  EXPECT_FALSE(result->refusal.has_value()) << result->refusal_message;
  outcome.state_sha256 = result->state_sha256;
  return outcome;
}

TEST(PlanMistake, GoesOnToTheSameBitsAndSaysSo) {
  TrainingCase c;
  c.model.n_layer = 2;
  c.model.n_head = 2;
  c.model.n_embd = 32;
  c.model.n_positions = 16;
  c.model.vocab_size = 97;
  c.dtype = DType::kBFloat16;
  c.options.shape = {.batch = 2, .length = 16, .micro_batches = 2};
  c.options.optimizer.gradient_clipping = 0.5;
  c.evaluate_after = 2;
  c.options.eval_batch = 2;
  const Outcome right = Train(c);
  EXPECT_EQ(right.note, "");
  c.options.planning.mistake = FetchTwice;
  for (const PlacementPolicy& policy : Policies()) {
    c.options.memory.policy = &policy;
    for (const int world_size : {1, 2}) {
      c.world_size = world_size;
      const Outcome mistaken = Train(c);
      EXPECT_EQ(mistaken.state_sha256, right.state_sha256)
          << policy.name << " on " << world_size;
      EXPECT_THAT(mistaken.note, HasSubstr("failed its proof"));
      EXPECT_THAT(mistaken.note, HasSubstr("chunk 0"));
    }
  }
}

}  // namespace
}  // namespace castor::testing
