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
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "models/families.h"
#include "models/family.h"
#include "nlohmann/json.hpp"
#include "runtime/autograd/engine.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"
#include "tests/random.h"
#include "tests/random_architecture.h"

namespace castor::testing {
namespace {

using Logits = std::vector<float>;

// A model of random values that reads sequences of kTokens tokens.
constexpr int64_t kTokens = 7;

struct Generated {
  std::vector<Logits> passes;
  int64_t smallest_bytes = 0;
  int64_t peak_bytes = 0;
};

// The logits after each pass: the first has `prompt` tokens, the others one.
absl::StatusOr<Generated> Generate(const models::Family& family,
                                   const Architecture& architecture,
                                   const std::vector<int32_t>& tokens,
                                   int64_t prompt, int64_t device_bytes,
                                   const std::string& policy) {
  Engine engine(DType::kFloat32, /*seed=*/5);
  std::unique_ptr<Model> model;
  {
    const ZeroInit scope(engine);
    model = family.Make(architecture);
  }
  for (const auto& parameter : engine.parameters()) {
    parameter->trainable = false;
  }
  TrainerOptions options;
  options.shape = {.batch = 1,
                   .length = prompt,
                   .training = false,
                   .cache = static_cast<int64_t>(tokens.size())};
  options.memory.policy = FindPolicy(policy);
  options.memory.device_bytes = device_bytes;
  options.scribble_freed_memory = true;
  CASTOR_ASSIGN_OR_RETURN(
      const auto trainer,
      Trainer::Create(&engine, model.get(), std::move(options)));
  InitialValues values(engine.seed());
  CASTOR_RETURN_IF_ERROR(trainer->Initialize(values));
  Generated generated;
  for (size_t at = 0; at < tokens.size();) {
    const size_t end = at == 0 ? prompt : at + 1;
    CASTOR_ASSIGN_OR_RETURN(
        generated.passes.emplace_back(),
        trainer->ReadOn({tokens.begin() + at, tokens.begin() + end}));
    at = end;
  }
  EXPECT_EQ(trainer->ReadOn({0}).status().code(),
            absl::StatusCode::kOutOfRange);
  generated.smallest_bytes = trainer->admission().smallest_device_budget_bytes;
  generated.peak_bytes = trainer->arena_stats().peak_bytes;
  return generated;
}

class Generation : public ::testing::TestWithParam<const models::Family*> {
 protected:
  Generation() {
    Random random(17);
    architecture_ = RandomArchitecture(*GetParam(), random);
    // GPT-2 has names of its own for what RandomArchitecture makes small.
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
  absl::StatusOr<Generated> Run(int64_t prompt, int64_t bytes,
                                const std::string& policy) const {
    return Generate(*GetParam(), *architecture_, tokens_, prompt, bytes,
                    policy);
  }

  std::shared_ptr<const Architecture> architecture_;
  std::vector<int32_t> tokens_;
};

// Products of other shapes may be summed in another order, over some hundred
// terms at most: the tolerance is that many roundings of the largest logit.
TEST_P(Generation, SaysTheSameHoweverTheSequenceIsCut) {
  const auto whole = Run(kTokens, kUnlimitedBytes, "auto");
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->passes.size(), 1u);
  const Logits& expected = whole->passes.back();
  ASSERT_EQ(static_cast<int64_t>(expected.size()), architecture_->vocabulary());
  float most = 0;
  for (const float logit : expected) most = std::max(most, std::abs(logit));
  ASSERT_GT(most, 0);
  for (const int64_t prompt : {int64_t{1}, int64_t{3}, kTokens - 1}) {
    const auto cut = Run(prompt, kUnlimitedBytes, "auto");
    ASSERT_TRUE(cut.ok()) << cut.status();
    ASSERT_EQ(static_cast<int64_t>(cut->passes.size()), kTokens - prompt + 1);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(cut->passes.back()[i], expected[i], 500 * most * 0x1p-24)
          << "token " << i << ", first pass of " << prompt;
    }
    // The first pass ends at another token.
    EXPECT_NE(cut->passes.front(), expected);
  }
}

TEST_P(Generation, SaysTheSameAtEveryBudget) {
  const auto everything = Run(3, kUnlimitedBytes, "cuda");
  ASSERT_TRUE(everything.ok()) << everything.status();
  for (const char* policy : {"auto", "cpu"}) {
    const auto asked = Run(3, kUnlimitedBytes, policy);
    ASSERT_TRUE(asked.ok()) << asked.status();
    const int64_t smallest = asked->smallest_bytes;
    const auto least = Run(3, smallest, policy);
    ASSERT_TRUE(least.ok()) << policy << ": " << least.status();
    EXPECT_EQ(least->passes, everything->passes) << policy;
    EXPECT_LE(least->peak_bytes, smallest);
    EXPECT_EQ(Run(3, smallest - 1, policy).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Generation,
                         ::testing::ValuesIn(models::Families().begin(),
                                             models::Families().end()),
                         [](const auto& info) {
                           return std::string(info.param->name());
                         });

}  // namespace
}  // namespace castor::testing
