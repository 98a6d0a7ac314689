#include "runtime/weights/hf_weights.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/weights/safetensors_writer.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kF32 = SafetensorsDtype::kF32;

const HfNames kNames = {
    .optional_prefix = "transformer.",
    .embedding = "transformer.wte.weight",
    .without_parameter = {"*.attn.bias", "*.attn.masked_bias"}};

class HfWeightsTest : public ::testing::Test {
 protected:
  // A directory with these tensors, all zero.
  std::unique_ptr<SafetensorsModel> Model(
      std::vector<SafetensorsEntry> entries) {
    auto writer = SafetensorsWriter::Create(dir_.path() + "/model.safetensors",
                                            std::move(entries));
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const SafetensorsEntry& entry : (*writer)->entries()) {
      int64_t size = SizeOf(entry.dtype);
      for (int64_t n : entry.shape) size *= n;
      const std::vector<uint8_t> zeros(size);
      EXPECT_TRUE((*writer)->Append(entry.name, zeros).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    auto model = SafetensorsModel::Open(dir_.path());
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  TemporaryDirectory dir_;
  const std::vector<HfParameter> parameters_ = {
      {"transformer.wte.weight", {5, 2}},
      {"transformer.h.0.attn.c_attn.bias", {6}}};
};

TEST_F(HfWeightsTest, FindsNamesWithThePrefix) {
  auto model = Model({{"transformer.wte.weight", kF32, {5, 2}},
                      {"transformer.h.0.attn.c_attn.bias", kF32, {6}}});
  auto resolved = ResolveHfWeights(*model, parameters_, kNames);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(*resolved, ElementsAre("transformer.wte.weight",
                                     "transformer.h.0.attn.c_attn.bias"));
}

TEST_F(HfWeightsTest, FindsNamesWithoutItAndIgnoresMasksAndTheTiedHead) {
  auto model = Model({{"wte.weight", SafetensorsDtype::kBF16, {5, 2}},
                      {"h.0.attn.c_attn.bias", SafetensorsDtype::kF16, {6}},
                      {"h.0.attn.bias", kF32, {1, 1, 4, 4}},
                      {"h.0.attn.masked_bias", SafetensorsDtype::kBool, {}},
                      {"lm_head.weight", kF32, {5, 2}}});
  auto resolved = ResolveHfWeights(*model, parameters_, kNames);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(*resolved, ElementsAre("wte.weight", "h.0.attn.c_attn.bias"));
}

// As safetensors' save_model leaves a tied pair.
TEST_F(HfWeightsTest, FindsATiedEmbeddingUnderTheHeadsName) {
  auto model = Model({{"lm_head.weight", kF32, {5, 2}},
                      {"transformer.h.0.attn.c_attn.bias", kF32, {6}}});
  auto resolved = ResolveHfWeights(*model, parameters_, kNames);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(*resolved, ElementsAre("lm_head.weight",
                                     "transformer.h.0.attn.c_attn.bias"));
  // A head that is a parameter of its own is nobody else's.
  std::vector<HfParameter> parameters = parameters_;
  parameters.push_back({"lm_head.weight", {5, 2}});
  EXPECT_THAT(
      std::string(
          ResolveHfWeights(*model, parameters, kNames).status().message()),
      HasSubstr("missing: transformer.wte.weight"));
}

// transformers 5 does not tie two that a file has with different values.
TEST_F(HfWeightsTest, TellsAHeadOfItsOwnFromACopy) {
  const auto with_head = [&](const std::vector<float>& head) {
    auto writer = SafetensorsWriter::Create(
        dir_.path() + "/model.safetensors",
        {{"wte.weight", SafetensorsDtype::kBF16, {2, 2}},
         {"lm_head.weight", kF32, {static_cast<int64_t>(head.size()) / 2, 2}}});
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const SafetensorsEntry& entry : (*writer)->entries()) {
      const std::vector<float> embedding = {1, 2, 3, 4};
      EXPECT_TRUE((*writer)
                      ->AppendFloats(entry.name, entry.name == "wte.weight"
                                                     ? embedding
                                                     : head)
                      .ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    auto model = SafetensorsModel::Open(dir_.path());
    EXPECT_TRUE(model.ok()) << model.status();
    return HasHeadOfItsOwn(**model, kNames);
  };
  EXPECT_EQ(*with_head({1, 2, 3, 4}), false);  // of another type
  EXPECT_EQ(*with_head({1, 2, 3, 5}), true);
  EXPECT_EQ(*with_head({1, 2}), true);
  EXPECT_EQ(
      *HasHeadOfItsOwn(*Model({{"lm_head.weight", kF32, {5, 2}}}), kNames),
      false);
  EXPECT_EQ(*HasHeadOfItsOwn(*Model({{"transformer.wte.weight", kF32, {5, 2}}}),
                             kNames),
            false);
}

// Files of Llama before transformers 4.32 hold the frequencies of each layer's
// rotary embedding, in any type; those of LlamaModel lack the "model.".
TEST_F(HfWeightsTest, IgnoresTensorsWithoutAParameter) {
  const HfNames llama = {.optional_prefix = "model.",
                         .embedding = "model.embed_tokens.weight",
                         .without_parameter = {"*.rotary_emb.inv_freq"}};
  auto model = Model({{"embed_tokens.weight", kF32, {5, 2}},
                      {"layers.0.self_attn.rotary_emb.inv_freq",
                       SafetensorsDtype::kF64,
                       {1}}});
  auto resolved = ResolveHfWeights(
      *model, std::vector<HfParameter>{{"model.embed_tokens.weight", {5, 2}}},
      llama);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(*resolved, ElementsAre("embed_tokens.weight"));
}

TEST_F(HfWeightsTest, WantsTheHeadWhenItIsNotTied) {
  std::vector<HfParameter> parameters = parameters_;
  parameters.push_back({"lm_head.weight", {5, 2}});
  auto model = Model({{"transformer.wte.weight", kF32, {5, 2}},
                      {"transformer.h.0.attn.c_attn.bias", kF32, {6}}});
  auto resolved = ResolveHfWeights(*model, parameters, kNames);
  EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(resolved.status().message()),
              HasSubstr("missing: lm_head.weight"));
}

TEST_F(HfWeightsTest, ListsAllThatIsWrongAtOnce) {
  auto model = Model({{"wte.weight", kF32, {2, 5}},
                      {"h.0.attn.c_attn.bias", SafetensorsDtype::kI32, {6}},
                      {"h.0.crossattention.q", kF32, {1}},
                      {"transformer.x\x1b", kF32, {1}}});
  std::vector<HfParameter> parameters = parameters_;
  parameters.push_back({"transformer.wpe.weight", {3, 2}});
  auto resolved = ResolveHfWeights(*model, parameters, kNames);
  EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(resolved.status().message()),
              AllOf(HasSubstr(dir_.path()),
                    HasSubstr("missing: transformer.wpe.weight;"),
                    HasSubstr("\"wte.weight\" is [2, 5], want [5, 2]"),
                    HasSubstr("\"h.0.attn.c_attn.bias\" is I32"),
                    HasSubstr("not known: \"h.0.crossattention.q\", "
                              "\"transformer.x\\x1b\"")));
}

TEST_F(HfWeightsTest, StaysShortWhenEverythingIsWrong) {
  std::vector<HfParameter> parameters;
  for (int i = 0; i < 100; ++i) {
    parameters.push_back({absl::StrCat("transformer.h.", i), {1}});
  }
  auto resolved = ResolveHfWeights(*Model({}), parameters, kNames);
  EXPECT_THAT(std::string(resolved.status().message()),
              AllOf(HasSubstr("transformer.h.7 and 92 more"),
                    Not(HasSubstr("transformer.h.8,"))));
}

TEST_F(HfWeightsTest, FindsAllOfARealModel) {
  for (const char* directory :
       {"tests/fixtures/gpt2_b/hf", "tests/fixtures/safetensors/sharded"}) {
    auto model = SafetensorsModel::Open(directory);
    ASSERT_TRUE(model.ok()) << model.status();
    std::vector<HfParameter> parameters;
    for (const std::string& name : (*model)->names()) {
      parameters.push_back({name, (*model)->Find(name)->shape});
    }
    auto resolved = ResolveHfWeights(**model, parameters, kNames);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ(*resolved, (*model)->names());
  }
}

}  // namespace
}  // namespace castor
