#include "models/rope/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/rope/rope_fixture_for_test.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const RopeModel kModel = {.head_size = 16, .positions = 32};

// Reads the keys, which must be right.
Rope Good(const Json& json, const RopeModel& model = kModel) {
  JsonReport report("f");
  JsonReader reader(json, report);
  Rope rope;
  rope.Read(reader, model);
  EXPECT_TRUE(report.status().ok()) << report.status();
  return rope;
}

std::string Error(const char* text, const RopeModel& model = kModel) {
  const Json json = Json::parse(text);
  JsonReport report("f");
  JsonReader reader(json, report);
  Rope rope;
  rope.Read(reader, model);
  EXPECT_FALSE(report.status().ok()) << text;
  return std::string(report.status().message());
}

// PyTorch's powers are off by a unit in the last place at most, 2^-23 of the
// power; so are their inverses, which both sides then round.
TEST(Rope, HasTheFrequenciesOfTransformers) {
  const std::vector<RopeCase> cases = RopeCases();
  ASSERT_GE(cases.size(), 17u);
  int same = 0, other = 0;
  for (const RopeCase& c : cases) {
    SCOPED_TRACE(c.name);
    Rope rope;
    const absl::Status status = c.Read(&rope);
    ASSERT_TRUE(status.ok()) << status;
    for (const Json& of : c.lengths) {
      const int64_t length = of["length"];
      SCOPED_TRACE(length);
      EXPECT_EQ(rope.attention_factor(), of["attention_factor"].get<float>());
      const Json& expected = of["inverse_frequencies"];
      const std::vector<float> got = rope.InverseFrequencies(length);
      ASSERT_THAT(got, SizeIs(expected.size()));
      EXPECT_EQ(rope.rotary_channels(), 2 * static_cast<int64_t>(got.size()));
      for (size_t i = 0; i < got.size(); ++i) {
        const float f = expected[i];
        EXPECT_LE(std::abs(got[i] - f), 2 * 0x1p-23f * f) << i;
        ++(got[i] == f ? same : other);
      }
    }
  }
  // Most powers are the nearest numbers in PyTorch, too.
  EXPECT_GT(same, 50 * other);
}

TEST(Rope, IsReadBackFromItsJson) {
  for (const RopeCase& c : RopeCases()) {
    SCOPED_TRACE(c.name);
    Rope rope;
    ASSERT_TRUE(c.Read(&rope).ok());
    const Rope again = Good({{"rope_parameters", rope.ToJson()}}, c.model);
    EXPECT_EQ(again.ToJson(), rope.ToJson());
    EXPECT_EQ(again.type(), rope.type());
    EXPECT_EQ(again.attention_factor(), rope.attention_factor());
    for (int64_t length : {1, 1000}) {
      EXPECT_EQ(again.InverseFrequencies(length),
                rope.InverseFrequencies(length));
    }
  }
}

TEST(Rope, WritesTheKeysOfItsType) {
  EXPECT_EQ(
      Good(Json::object(), {.head_size = 8, .theta = 5e5}).ToJson().dump(),
      R"({"rope_type":"default","rope_theta":500000.0})");
  EXPECT_EQ(
      Good(Json::parse(R"({"rope_scaling": {"type": "yarn", "factor": 4}})"))
          .ToJson()
          .dump(),
      R"({"rope_type":"yarn","rope_theta":10000.0,"factor":4.0,)"
      R"("original_max_position_embeddings":32,"beta_fast":32.0,)"
      R"("beta_slow":1.0,"truncate":true})");
}

TEST(Rope, ReadsOldAndNewKeysTogetherIfTheyAgree) {
  const Rope one = Good(Json::parse(R"({"rope_theta": 5e4,
      "rope_scaling": {"rope_type": "linear", "type": "linear", "factor": 2},
      "rope_parameters": {"rope_type": "linear", "rope_theta": 50000.0,
                          "factor": 2.0}})"));
  EXPECT_EQ(one.ToJson().dump(),
            R"({"rope_type":"linear","rope_theta":50000.0,"factor":2.0})");
  EXPECT_EQ(Good(Json::parse(R"({"rope_scaling": null, "rope_theta": 7,
                                 "rope_parameters": null})"))
                .ToJson()
                .dump(),
            R"({"rope_type":"default","rope_theta":7.0})");
  // Keys of other types are ignored, as in transformers.
  EXPECT_EQ(Good(Json::parse(R"({"rope_parameters": {"rope_type": "default",
                                 "factor": 2.0, "long_factor": [1]}})"))
                .type(),
            RopeType::kDefault);
}

TEST(Rope, RefusesContradictions) {
  EXPECT_THAT(Error(R"({"rope_theta": 5, "rope_parameters":
                        {"rope_type": "default", "rope_theta": 6}})"),
              HasSubstr("rope_theta: 5 contradicts rope_parameters.rope_theta "
                        "(6); leave one of them out"));
  EXPECT_THAT(Error(R"({"rope_scaling": {"type": "linear", "factor": 2},
                "rope_parameters": {"rope_type": "linear", "factor": 3}})"),
              HasSubstr("rope_scaling: {\"rope_type\":\"linear\","
                        "\"rope_theta\":10000.0,\"factor\":2.0} contradicts "
                        "rope_parameters"));
  EXPECT_THAT(Error(R"({"rope_scaling": {"type": "linear", "factor": 2},
                        "rope_parameters": {"rope_theta": 10000.0}})"),
              HasSubstr("contradicts rope_parameters"));
  EXPECT_THAT(Error(R"({"rope_scaling": {"type": "linear", "factor": 2,
                                         "rope_type": "dynamic"}})"),
              HasSubstr("rope_scaling.type: \"linear\" contradicts rope_type"));
  EXPECT_THAT(Error(R"({"original_max_position_embeddings": 16,
                        "rope_scaling": {"type": "yarn", "factor": 2,
                          "original_max_position_embeddings": 8}})"),
              HasSubstr("original_max_position_embeddings: 16 contradicts "
                        "rope_scaling.original_max_position_embeddings (8)"));
}

TEST(Rope, RefusesTypesByName) {
  EXPECT_THAT(
      Error(R"({"rope_scaling": {"type": "longrope", "factor": 2,
                "long_factor": [1, 2], "short_factor": [1, 1]}})"),
      HasSubstr("rope_scaling.type: \"longrope\" is not supported; "
                "\"default\", \"linear\", \"dynamic\", \"llama3\" and \"yarn\" "
                "are"));
  EXPECT_THAT(Error(R"({"rope_parameters": {"rope_type": "proportional"}})"),
              HasSubstr("rope_parameters.rope_type: \"proportional\""));
  EXPECT_THAT(Error(R"({"rope_scaling": {"type": "mrope",
                                         "mrope_section": [1, 2]}})"),
              HasSubstr("rope_scaling.type: \"mrope\" is not supported"));
  EXPECT_THAT(Error(R"({"rope_scaling": {"factor": 2}})"),
              HasSubstr("rope_scaling.rope_type: is required beside factor"));
  EXPECT_THAT(Error(R"({"rope_scaling": {"type": "default",
                                         "mrope_section": [1, 2]}})"),
              HasSubstr("rope_scaling.mrope_section: unknown key"));
  EXPECT_THAT(Error(R"({"rope_scaling": "linear"})"),
              HasSubstr("rope_scaling"));
}

TEST(Rope, RefusesNumbersThatAreMissingOrOutOfRange) {
  const auto error = [](const std::string& keys) {
    return Error(
        ("{\"rope_parameters\": {\"rope_type\": " + keys + "}}").c_str());
  };
  EXPECT_THAT(error(R"("linear")"), HasSubstr("factor: is required"));
  EXPECT_THAT(error(R"("linear", "factor": 0.5)"),
              HasSubstr("rope_parameters.factor: expected a number in [1.0, "
                        "1000000.0]"));
  EXPECT_THAT(error(R"("default", "rope_theta": 1)"), HasSubstr("rope_theta"));
  EXPECT_THAT(error(R"("llama3", "factor": 8, "low_freq_factor": 1)"),
              HasSubstr("high_freq_factor: is required"));
  EXPECT_THAT(error(R"("llama3", "factor": 8, "low_freq_factor": 4,
                       "high_freq_factor": 4)"),
              HasSubstr("high_freq_factor: 4 must be above "
                        "rope_parameters.low_freq_factor (4)"));
  EXPECT_THAT(error(R"("yarn", "factor": 2, "beta_fast": 1, "beta_slow": 2)"),
              HasSubstr("beta_fast: 1 must be at least"));
  EXPECT_THAT(error(R"("yarn", "factor": 2, "truncate": 1)"),
              HasSubstr("truncate: expected true or false"));
  EXPECT_THAT(error(R"("yarn", "original_max_position_embeddings": 64)"),
              HasSubstr("64 is more than max_position_embeddings (32)"));
  EXPECT_THAT(error(R"("yarn", "original_max_position_embeddings": 1.5)"),
              HasSubstr("original_max_position_embeddings: expected"));
}

// A factor of 1e300 gave angles that are no numbers, which ended the program.
TEST(Rope, RefusesNumbersFarFromThoseOfAnyModel) {
  const auto error = [](const std::string& keys) {
    return Error(
        ("{\"rope_parameters\": {\"rope_type\": " + keys + "}}").c_str());
  };
  EXPECT_THAT(error(R"("dynamic", "factor": 1e300)"),
              HasSubstr("rope_parameters.factor: expected a number in"));
  EXPECT_THAT(error(R"("default", "rope_theta": 1e300)"),
              HasSubstr("rope_parameters.rope_theta: expected a number in"));
  EXPECT_THAT(error(R"("llama3", "factor": 8, "low_freq_factor": 1e-300,
                       "high_freq_factor": 4)"),
              HasSubstr("low_freq_factor: expected a number in"));
  EXPECT_THAT(error(R"("yarn", "factor": 2, "attention_factor": 1e300)"),
              HasSubstr("attention_factor: expected a number in"));
  EXPECT_THAT(error(R"("yarn", "factor": 2, "mscale": 1e300,
                       "mscale_all_dim": 1)"),
              HasSubstr("mscale: expected a number in"));
}

// DeepSeek-R1-0528-Qwen3-8B's: transformers passes over attn_factor, so that
// the factor is 0.1 ln 4 + 1, and vLLM multiplies that by it.
TEST(Rope, AsksWhichFactorIsMeantByAttnFactor) {
  EXPECT_THAT(
      Error(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                "original_max_position_embeddings": 8,
                "attn_factor": 0.8782488562869419}})"),
      HasSubstr("rope_scaling.attn_factor: programs differ on it: transformers "
                "passes over it, so that cosines and sines are times 1.13863, "
                "and vLLM multiplies that by it, to 1: put "
                "rope_scaling.attention_factor in its place"));
}

TEST(Rope, TellsThatFinetunedIsPassedOver) {
  const Json json = Json::parse(R"({"rope_scaling": {"type": "yarn",
      "factor": 4, "finetuned": true}})");
  EXPECT_THAT(Good(json).notes(),
              ::testing::ElementsAre(HasSubstr("rope_scaling.finetuned")));
  EXPECT_THAT(Good(Json::object()).notes(), ::testing::IsEmpty());
}

TEST(Rope, RefusesHeadsThatCannotTurnInPairs) {
  EXPECT_THAT(Error("{}", {.head_size = 5}), HasSubstr("5 channels of heads"));
  EXPECT_THAT(Error(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})",
                    {.head_size = 2, .positions = 8}),
              HasSubstr("an even number of at least 4"));
  EXPECT_THAT(Error(R"({"partial_rotary_factor": 0.5})"),
              HasSubstr("partial_rotary_factor: 0.5 is not supported"));
  const RopeModel partial = {.head_size = 16, .positions = 8, .partial = true};
  EXPECT_THAT(Error(R"({"partial_rotary_factor": 0.2})", partial),
              HasSubstr("3 channels of heads of 16"));
  EXPECT_THAT(
      Error(R"({"partial_rotary_factor": 1.5})", partial),
      HasSubstr("partial_rotary_factor: expected a number in (0.0, 1.0]"));
}

// Without a factor, YaRN stretches by the ratio of the lengths.
TEST(Rope, YarnTakesItsFactorFromTheLengths) {
  const Rope rope = Good(Json::parse(
      R"({"rope_parameters": {"rope_type": "yarn",
                              "original_max_position_embeddings": 8}})"));
  const Rope same = Good(Json::parse(
      R"({"original_max_position_embeddings": 8,
          "rope_scaling": {"rope_type": "yarn", "factor": 4}})"));
  EXPECT_EQ(rope.ToJson(), same.ToJson());
}

// Gemma 3 has one rope for each of two kinds of layers.
TEST(Rope, ReadsTheRopeOfOneKindOfLayers) {
  const RopeModel full = {.head_size = 16,
                          .positions = 32,
                          .theta = 1e6,
                          .layer_type = "full_attention"};
  const RopeModel sliding = {.head_size = 16,
                             .positions = 32,
                             .layer_type = "sliding_attention",
                             .theta_key = "rope_local_base_freq",
                             .scaled = false};
  const Json old = Json::parse(R"({"rope_theta": 1e6,
      "rope_local_base_freq": 2e4,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  const Json parameters = {{"full_attention", Good(old, full).ToJson()},
                           {"sliding_attention", Good(old, sliding).ToJson()}};
  EXPECT_EQ(parameters.dump(),
            R"({"full_attention":{"factor":8.0,"rope_theta":1000000.0,)"
            R"("rope_type":"linear"},"sliding_attention":{)"
            R"("rope_theta":20000.0,"rope_type":"default"}})");
  const Json now = {{"rope_parameters", parameters}};
  EXPECT_EQ(Good(now, full).ToJson(), Good(old, full).ToJson());
  EXPECT_EQ(Good(now, sliding).ToJson(), Good(old, sliding).ToJson());
  EXPECT_THAT(Error(R"({"rope_parameters": {"rope_type": "default"}})", full),
              HasSubstr("rope_parameters.full_attention: expected an object"));
  EXPECT_THAT(Error(now.dump().c_str()),
              HasSubstr("rope_parameters.full_attention: unknown key"));
}

}  // namespace
}  // namespace castor::models
