#include "models/shapes/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "models/families.h"
#include "runtime/autograd/engine.h"
#include "runtime/nn/model.h"
#include "runtime/nn/zero_init.h"

namespace castor::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns the number of parameters that transformers counts in the public model
// of the name, tied ones once. The numbers of the largest OPTs and of
// gpt3-175b, of which there is no file, follow from their papers' sizes by
// formulas of their own (S. Zhang et al., "OPT", table 1; T. Brown et al.,
// "Language Models are Few-Shot Learners", table 2.1).
const std::map<std::string, int64_t>& Published() {
  static const auto& published = *new std::map<std::string, int64_t>{
      {"gpt2", 124439808},
      {"gpt2-medium", 354823168},
      {"gpt2-large", 774030080},
      {"gpt2-xl", 1557611200},
      {"gpt3-175b", 174604259328},
      {"llama-2-7b", 6738415616},
      {"llama-2-13b", 13015864320},
      {"llama-2-70b", 68976648192},
      {"llama-3.1-8b", 8030261248},
      {"llama-3.1-70b", 70553706496},
      {"llama-3.1-405b", 405853388800},
      {"llama-3.2-1b", 1235814400},
      {"llama-3.2-3b", 3212749824},
      {"mistral-7b", 7248023552},
      {"opt-125m", 125239296},
      {"opt-1.3b", 1315758080},
      {"opt-2.7b", 2651596800},
      {"opt-6.7b", 6658473984},
      {"opt-13b", 12853473280},
      {"opt-30b", 29974540288},
      {"opt-66b", 65719701504},
      {"opt-175b", 174604468224},
      {"qwen2.5-0.5b", 494032768},
      {"qwen2.5-1.5b", 1543714304},
      {"qwen2.5-3b", 3085938688},
      {"qwen2.5-7b", 7615616512},
      {"qwen2.5-14b", 14770033664},
      {"qwen2.5-32b", 32763876352},
      {"qwen2.5-72b", 72706203648},
      {"qwen3-0.6b", 596049920},
      {"qwen3-1.7b", 1720574976},
      {"qwen3-4b", 4022468096},
      {"qwen3-8b", 8190735360},
      {"qwen3-14b", 14768307200},
      {"qwen3-32b", 32762123264},
      {"smollm2-135m", 134515008},
      {"smollm2-360m", 361821120},
      {"smollm2-1.7b", 1711376384},
  };
  return published;
}

TEST(Shapes, HaveTheParametersOfThePublicModels) {
  EXPECT_EQ(ShapeNames().size(), Published().size());
  for (const std::string& name : ShapeNames()) {
    SCOPED_TRACE(name);
    const auto text = ShapeNamed(name);
    ASSERT_TRUE(text.ok()) << text.status();
    ModelConfig config;
    const absl::Status read = ParsePretrained(*text, name, &config);
    ASSERT_TRUE(read.ok()) << read;
    Engine engine(DType::kBFloat16, /*seed=*/0);
    {
      const ZeroInit scope(engine);
      FamilyOf(config).Make(*config.architecture);
    }
    ASSERT_TRUE(engine.construction_status().ok());
    int64_t parameters = 0;
    for (const auto& parameter : engine.parameters()) {
      parameters += parameter->elements();
    }
    ASSERT_TRUE(Published().contains(name));
    EXPECT_EQ(parameters, Published().at(name));
  }
}

TEST(Shapes, GoByTheNamesThatPeopleGiveThem) {
  EXPECT_EQ(*ShapeNamed("gpt2-1.5b"), *ShapeNamed("gpt2-xl"));
  EXPECT_EQ(*ShapeNamed("Llama-3.1-8B"), *ShapeNamed("llama-3.1-8b"));
  EXPECT_EQ(*ShapeNamed("Qwen2.5_7B"), *ShapeNamed("qwen2.5-7b"));
}

TEST(Shapes, NameTheNearestOfAnUnknownName) {
  EXPECT_THAT(ShapeNamed("llama-3-8b").status().message(),
              AllOf(HasSubstr("there is no model \"llama-3-8b\""),
                    HasSubstr("the nearest name is \"llama-"),
                    HasSubstr("qwen3-14b, ")));
}

}  // namespace
}  // namespace castor::models
