// Tokens that are not labelled: a loss is the mean over those that are,
// wherever they are; and batches that cannot be trained on. That bits depend on
// neither placement nor ranks then is promises_test; that the weights are
// transformers', family_reference_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/comm/communicator.h"
#include "models/families.h"
#include "nlohmann/json.hpp"
#include "tests/random.h"
#include "tests/random_architecture.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr int64_t kLength = 8;
constexpr int64_t kVocabulary = 32;

TrainingCase Small(int world_size) {
  TrainingCase c;
  c.model.n_layer = 2;
  c.model.n_head = 2;
  c.model.n_embd = 16;
  c.model.n_positions = kLength;
  c.model.vocab_size = kVocabulary;
  c.model.resid_pdrop = c.model.embd_pdrop = c.model.attn_pdrop = 0;
  c.options.shape = {.batch = 1, .length = kLength, .micro_batches = 3};
  c.options.memory.policy = FindPolicy("cpu");
  c.options.eval_batch = 1;
  c.options.optimizer.gradient_clipping = 0.5;
  c.world_size = world_size;
  return c;
}

absl::StatusOr<MicroBatch> WithoutLabels() {
  return MicroBatch{std::vector<int32_t>(kLength, 1),
                    std::vector<int32_t>(kLength, -100)};
}

// A micro batch of which the first `labels` tokens are labelled.
MicroBatch WithLabels(int64_t index, int64_t labels) {
  MicroBatch batch =
      RandomMicroBatch(7, index, {.length = kLength}, kVocabulary);
  std::fill(batch.targets.begin() + labels, batch.targets.end(), -100);
  return batch;
}

TEST(Labels, AreCountedOverMicroBatchesAndRanks) {
  std::vector<std::vector<double>> losses;
  for (const int64_t only : {0, 1, 2}) {
    for (const int world_size : {1, 3}) {
      TrainingCase c = Small(world_size);
      c.steps = 4;
      // One micro batch of the step has labels, two have none.
      c.data = [&](int64_t index) {
        return WithLabels(index / 3, index % 3 == only ? 1 + index / 3 : 0);
      };
      const auto result = RunTraining(c);
      ASSERT_TRUE(result.ok()) << result.status();
      losses.push_back(result->losses);
    }
  }
  for (const std::vector<double>& others : losses) {
    EXPECT_EQ(others, losses[0]);
    for (const double loss : others) {
      // A model that knows nothing; a third of it would be the mean of means.
      EXPECT_NEAR(loss, std::log(kVocabulary), 0.5);
    }
  }
}

// A BERT that learns words and next sentences, of random sizes.
TrainingCase SmallPretraining(int world_size) {
  TrainingCase c = Small(world_size);
  Random random(5);
  c.architecture = RandomArchitecture(*models::FindFamily("bert"), random);
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{
           {"head", "pretraining"},
           {"vocab_size", kVocabulary},
           {"max_position_embeddings", kLength},
           {"initializer_range", 1e-3},
           {"hidden_dropout_prob", 0},
           {"attention_probs_dropout_prob", 0}}) {
    c.architecture = WithKey(c.architecture, key, value);
  }
  c.options.shape.terms = TermsOf(c);
  EXPECT_EQ(c.options.shape.terms, 2);
  return c;
}

TEST(Labels, OfEachTermAreCountedByThemselves) {
  const double of_word = std::log(kVocabulary), of_sequence = std::log(2);
  std::vector<std::vector<double>> losses;
  for (const int64_t only : {0, 1, 2}) {
    for (const int world_size : {1, 3}) {
      TrainingCase c = SmallPretraining(world_size);
      c.steps = 3;
      // Five words of one micro batch of a step have labels, and a sequence of
      // another one; in the last step no sequence has.
      c.data = [&](int64_t index) {
        const int64_t step = index / 3, at = index % 3;
        MicroBatch batch = WithLabels(step, at == only ? 5 : 0);
        batch.other_targets = {std::vector<int32_t>(kLength, -100)};
        if (at == (only + 1) % 3 && step < 2) batch.other_targets[0][0] = 1;
        return batch;
      };
      const auto result = RunTraining(c);
      ASSERT_TRUE(result.ok()) << result.status();
      losses.push_back(result->losses);
      // The model knows nothing yet.
      EXPECT_NEAR(result->losses[0], of_word + of_sequence, 0.1);
      ASSERT_EQ(result->reports[0].terms.size(), 2u);
      EXPECT_NEAR(result->reports[0].terms[0], of_word, 0.1);
      EXPECT_NEAR(result->reports[0].terms[1], of_sequence, 0.1);
      EXPECT_EQ(result->reports[2].terms[1], 0);
      EXPECT_EQ(result->reports[2].terms[0], result->losses[2]);
    }
  }
  for (const std::vector<double>& others : losses) EXPECT_EQ(others, losses[0]);
}

TEST(Labels, ABatchThatCannotBeReadChangesNothing) {
  TrainingCase c = Small(1);
  c.steps = 4;
  const auto expected = RunTraining(c);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const absl::Status damaged = absl::DataLossError("the disk");
  c.after_step = [&](Trainer& trainer, int64_t) {
    EXPECT_EQ(trainer.Step([&] { return damaged; }).status(), damaged);
    EXPECT_EQ(trainer.Evaluate(5, [&] { return damaged; }).status(), damaged);
    return trainer.Drain();
  };
  const auto result = RunTraining(c);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->losses, expected->losses);
  EXPECT_EQ(result->state_sha256, expected->state_sha256);
}

TEST(Labels, ABatchWithoutAnyIsRefusedByAllRanksAndTheNextGoesOn) {
  for (const int world_size : {1, 3}) {
    TrainingCase c = Small(world_size);
    c.steps = 4;
    const auto expected = RunTraining(c);
    ASSERT_TRUE(expected.ok()) << expected.status();
    c.after_step = [&](Trainer& trainer, int64_t step) {
      const absl::Status training = trainer.Step(WithoutLabels).status();
      EXPECT_TRUE(absl::IsInvalidArgument(training)) << training;
      EXPECT_TRUE(absl::StrContains(
          training.message(),
          absl::StrCat("step ", step + 1,
                       " has no loss: none of the tokens of "
                       "its 3 micro batches of [1, 8] is labelled")))
          << training;
      const absl::Status evaluation =
          trainer.Evaluate(5, WithoutLabels).status();
      EXPECT_TRUE(absl::IsInvalidArgument(evaluation)) << evaluation;
      EXPECT_TRUE(
          absl::StrContains(evaluation.message(),
                            absl::StrCat("after step ", step, " has no loss")))
          << evaluation;
      return absl::OkStatus();
    };
    const auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->losses, expected->losses);
    EXPECT_EQ(result->state_sha256, expected->state_sha256);
    EXPECT_EQ(result->reports.size(), 4u);
  }
}

// The loss over batches that have so many labels.
absl::StatusOr<double> Evaluate(Trainer& trainer,
                                const std::vector<int64_t>& labels) {
  const Communicator* const group = trainer.communicator();
  int64_t index = group == nullptr ? 0 : group->rank();
  const int64_t stride = group == nullptr ? 1 : group->world_size();
  return trainer.Evaluate(static_cast<int64_t>(labels.size()), [&] {
    const int64_t at = std::exchange(index, index + stride);
    return absl::StatusOr<MicroBatch>(WithLabels(at, labels[at]));
  });
}

TEST(Labels, WeighAlikeInAllBatchesOfAnEvaluation) {
  std::mutex mutex;
  std::vector<double> together;  // of each rank of each run
  for (const int world_size : {1, 3}) {
    TrainingCase c = Small(world_size);
    c.steps = 1;
    c.after_step = [&](Trainer& trainer, int64_t) -> absl::Status {
      CASTOR_ASSIGN_OR_RETURN(const double first, Evaluate(trainer, {1}));
      CASTOR_ASSIGN_OR_RETURN(const double both, Evaluate(trainer, {1, 8}));
      CASTOR_ASSIGN_OR_RETURN(const double second, Evaluate(trainer, {0, 8}));
      CASTOR_ASSIGN_OR_RETURN(const double more,
                              Evaluate(trainer, {1, 8, 0, 0}));
      EXPECT_NEAR(both, (first + 8 * second) / 9, 1e-6);
      // If these were alike, the mean of the two would pass, too.
      EXPECT_GT(std::abs(first - second), 1e-3);
      EXPECT_EQ(more, both);
      const std::lock_guard<std::mutex> lock(mutex);
      together.push_back(both);
      return absl::OkStatus();
    };
    const auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status();
  }
  EXPECT_EQ(together, std::vector<double>(4, together[0]));
}

TEST(Labels, HostMemoryIsPlannedForTheTokensOfAStep) {
  TrainingCase c = Small(1);
  c.steps = 0;
  const auto three = RunTraining(c);
  c.options.shape.micro_batches = 5;
  const auto five = RunTraining(c);
  ASSERT_TRUE(three.ok() && five.ok());
  // Tokens and targets of two micro batches, int32.
  EXPECT_EQ(five->admission.host.staging - three->admission.host.staging,
            2 * 2 * 4 * kLength);
}

}  // namespace
}  // namespace castor::testing
