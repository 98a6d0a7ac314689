// Generation through a key-value cache: what a model says next does not depend
// on how its sequence was cut into passes, and its bits on no placement.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "models/families.h"
#include "models/family.h"
#include "nlohmann/json.hpp"
#include "tests/random.h"
#include "tests/random_architecture.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

// A model of random values reads sequences of kTokens tokens.
constexpr int64_t kTokens = 7;

class Generation : public ::testing::TestWithParam<const models::Family*> {
 protected:
  Generation() {
    Random random(17);
    architecture_ = RandomArchitecture(*GetParam(), random);
    // GPT-2 has names of its own for the sizes that RandomArchitecture makes
    // small.
    for (const auto& [key, value] :
         {std::pair<const char*, int64_t>{"max_position_embeddings", 13},
          {"n_layer", 2},
          {"n_head", 2},
          {"n_embd", 8},
          {"n_positions", 13},
          {"vocab_size", 40}}) {
      architecture_ = WithKey(architecture_, key, value);
    }
    for (int64_t i = 0; i < kTokens; ++i) {
      tokens_.push_back(
          static_cast<int32_t>(i * 5 % architecture_->vocabulary()));
    }
  }
  // The first pass has `prompt` tokens, the others one.
  absl::StatusOr<TrainingResult> Run(int64_t prompt, int64_t bytes,
                                     const std::string& policy) const {
    TrainingCase c;
    c.architecture = architecture_;
    c.seed = 5;
    c.options.shape = {
        .batch = 1, .length = prompt, .training = false, .cache = kTokens};
    c.options.memory.policy = FindPolicy(policy);
    c.options.memory.device_bytes = bytes;
    c.options.scribble_freed_memory = true;
    c.steps = kTokens - prompt + 1;
    c.data = [&](int64_t pass) {
      const auto begin = tokens_.begin() + (pass == 0 ? 0 : prompt + pass - 1);
      return MicroBatch{.tokens = {begin, begin + (pass == 0 ? prompt : 1)},
                        .targets = {}};
    };
    return RunTraining(c, [](Trainer& trainer) {
      EXPECT_EQ(trainer.ReadOn({0}).status().code(),
                absl::StatusCode::kOutOfRange);
      return absl::OkStatus();
    });
  }

  std::shared_ptr<const Architecture> architecture_;
  std::vector<int32_t> tokens_;
};

// Products of other shapes may be summed in another order, over some hundred
// terms at most: the tolerance is that many roundings of the largest logit.
TEST_P(Generation, SaysTheSameHoweverTheSequenceIsCut) {
  const auto whole = Run(kTokens, kUnlimitedBytes, "auto");
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->logits.size(), 1u);
  const std::vector<float>& expected = whole->logits.back();
  ASSERT_EQ(static_cast<int64_t>(expected.size()), architecture_->vocabulary());
  float most = 0;
  for (const float logit : expected) most = std::max(most, std::abs(logit));
  ASSERT_GT(most, 0);
  for (const int64_t prompt : {int64_t{1}, int64_t{3}, kTokens - 1}) {
    const auto cut = Run(prompt, kUnlimitedBytes, "auto");
    ASSERT_TRUE(cut.ok()) << cut.status();
    ASSERT_EQ(static_cast<int64_t>(cut->logits.size()), kTokens - prompt + 1);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(cut->logits.back()[i], expected[i], 500 * most * 0x1p-24)
          << "token " << i << ", first pass of " << prompt;
    }
    // The first pass ends at another token.
    EXPECT_NE(cut->logits.front(), expected);
  }
}

TEST_P(Generation, SaysTheSameAtTheSmallestBudget) {
  const auto everything = Run(3, kUnlimitedBytes, "cuda");
  ASSERT_TRUE(everything.ok()) << everything.status();
  ASSERT_EQ(everything->logits.size(), size_t{kTokens - 3 + 1});
  for (const char* policy : {"auto", "cpu"}) {
    const auto refused = Run(3, 0, policy);
    ASSERT_TRUE(refused.ok() && refused->refusal.has_value()) << policy;
    const int64_t smallest = refused->refusal->smallest_device_budget_bytes;
    const auto least = Run(3, smallest, policy);
    ASSERT_TRUE(least.ok()) << policy << ": " << least.status();
    ASSERT_FALSE(least->refusal.has_value()) << least->refusal_message;
    EXPECT_TRUE(SameLogits(*least, *everything)) << policy;
    EXPECT_LE(least->device_peak_bytes, smallest);
    const auto less = Run(3, smallest - 1, policy);
    EXPECT_TRUE(less.ok() && less->refusal.has_value()) << policy;
  }
}

std::vector<const models::Family*> FamiliesThatGenerate() {
  std::vector<const models::Family*> families;
  for (const models::Family* family : models::Families()) {
    Random random(1);
    if (RandomArchitecture(*family, random)->task() == ModelTask::kNextToken) {
      families.push_back(family);
    }
  }
  return families;
}

INSTANTIATE_TEST_SUITE_P(Families, Generation,
                         ::testing::ValuesIn(FamiliesThatGenerate()),
                         [](const auto& info) {
                           return std::string(info.param->name());
                         });

}  // namespace
}  // namespace castor::testing
