// A number at the end of what a configuration can say is refused by `castor
// plan` as by `castor train`, in one line that names the key and its bounds, or
// it trains. It was reported that a factor of 1e300 of a rotary embedding ended
// training by SIGABRT while plan said that the run fits, that a bus of 1e-300
// GB/s waits for ever, and that "steps" of 2^63 - 1 were called less than 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

class ExtremeValuesTest : public CliTest {
 protected:
  void ExpectRefused(const Json& config, const std::string& set,
                     const std::string& message) const {
    WriteConfig(config);
    std::vector<std::string> more;
    if (!set.empty()) more = {"--set", set};
    for (const std::string command : {"plan", "train"}) {
      SCOPED_TRACE(command + " " + set);
      std::vector<std::string> args = {command, "run.json"};
      args.insert(args.end(), more.begin(), more.end());
      const ProcessResult result = Castor(args);
      ExpectUserError(result);
      EXPECT_THAT(result.err, HasSubstr(message));
      EXPECT_FALSE(Exists("out")) << result.err;
    }
  }
  // The run does six steps, each of a loss that is a number.
  void ExpectTrains(const Json& config,
                    const std::vector<std::string>& args) const {
    const Json summary = Summary(config, args);
    ASSERT_EQ(summary.value("steps", 0), 6);
    for (const Json& loss : summary["losses"]) {
      EXPECT_TRUE(loss.is_number()) << summary.dump();
    }
  }
  // Trains a llama of one layer over 16 positions.
  static Json Llama(const Json& rope, int positions = 16) {
    Json config = SmallConfig();
    config["optimizer"].erase("no_decay");  // names that this model has not
    config["model"] = {{"type", "llama"},
                       {"vocab_size", 256},
                       {"hidden_size", 16},
                       {"intermediate_size", 24},
                       {"num_hidden_layers", 1},
                       {"num_attention_heads", 2},
                       {"max_position_embeddings", positions},
                       {"rope_parameters", rope}};
    return config;
  }
};

TEST_F(ExtremeValuesTest, RotaryEmbeddingsAreRefusedByPlanAndTrain) {
  const std::string at = "model.rope_parameters.";
  const struct {
    const char* rope;
    const char* message;
  } kCases[] = {
      {R"({"rope_type": "dynamic", "factor": 1e300})",
       "factor: expected a number in [1.0, 1000000.0], found 1e+300"},
      {R"({"rope_type": "dynamic", "factor": 1e30})", "factor: expected"},
      {R"({"rope_type": "default", "rope_theta": 1e300})",
       "rope_theta: expected a number in (1.0, 1e+30], found 1e+300"},
      {R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1e-300,
           "high_freq_factor": 4})",
       "low_freq_factor: expected a number in [1e-06, 1000000.0]"},
      {R"({"rope_type": "yarn", "factor": 2, "attention_factor": 1e300})",
       "attention_factor: expected"},
      {R"({"rope_type": "yarn", "factor": 2, "beta_fast": 1e308})",
       "beta_fast: expected"},
  };
  for (const auto& [rope, message] : kCases) {
    ExpectRefused(Llama(Json::parse(rope)), "", at + message);
  }
}

TEST_F(ExtremeValuesTest, NumbersOutOfBoundsAreRefusedWithTheBound) {
  const char* const kCases[][2] = {
      {"steps=9223372036854775807",
       "steps: expected an integer from 1 to 281474976710656, found "
       "9223372036854775807"},
      {"steps=1e300", "steps: expected an integer from 1 to 281474976710656"},
      {"seed=9223372036854775808",
       "seed: expected an integer from 0 to 9223372036854775807"},
      {"train_batch_size=9223372036854775807",
       "train_batch_size: expected an integer from 1 to 1099511627776"},
      {"scheduler.params.warmup_num_steps=9223372036854775807",
       "warmup_num_steps: expected an integer from 0 to 281474976710656"},
      {"device.bus_gbps=1e-300",
       "device.bus_gbps: expected 0 (as fast as memory is) or a speed in GB/s "
       "from 0.001 to 1e+06, found 1e-300"},
      {"device.bus_gbps=1e300", "device.bus_gbps: expected"},
      {"optimizer.params.lr=1e300",
       "optimizer.params.lr: expected a number in [0.0, 1e+38]"},
      {"optimizer.params.weight_decay=1e300",
       "optimizer.params.weight_decay: expected a number in [0.0, 1e+38]"},
      {"optimizer.params.eps=1e-300",
       "optimizer.params.eps: expected a finite number of at least 1e-37"},
      {"model.initializer_range=1e300",
       "model.initializer_range: expected a number in [0.0, 1000.0]"},
      {"memory.warmup_steps=9223372036854775807",
       "memory.warmup_steps: expected an integer from 1 to 281474976710656"},
      {"network.timeout_seconds=1e300", "network.timeout_seconds: expected"},
      {"fp16.initial_scale_power=1e300",
       "fp16.initial_scale_power: expected an integer from 0 to 100"},
  };
  for (const auto& [set, message] : kCases) {
    ExpectRefused(SmallConfig(), set, message);
  }
}

TEST_F(ExtremeValuesTest, WhatIsFarOutAndHasAMeaningTrains) {
  for (const char* set :
       {"seed=9223372036854775807", "gradient_clipping=1e300",
        "gradient_clipping=1e-300", "device.bus_gbps=1e6",
        "optimizer.params.lr=1e-300", "optimizer.params.eps=1e-37",
        "model.layer_norm_epsilon=1e-300", "model.initializer_range=1e-300",
        "checkpoint.save_interval=281474976710656",
        "steps_per_print=281474976710656"}) {
    SCOPED_TRACE(set);
    ExpectTrains(SmallConfig(), {"--set", set});
  }
  // The rotary embedding is at the end of its bounds here, and reaches over
  // more positions than the model has.
  ExpectTrains(
      Llama({{"rope_type", "dynamic"}, {"rope_theta", 1e4}, {"factor", 1e6}},
            /*positions=*/8),
      {});
}

TEST_F(ExtremeValuesTest, WhatIsNoNumberIsNoTemperature) {
  Summary(SmallConfig());
  for (const char* option : {"--temperature", "--top-p"}) {
    const ProcessResult result =
        Castor({"generate", "out", "--prompt", "a", "--max-new-tokens", "2",
                option, "nan"});
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr(option));
    EXPECT_THAT(result.err, HasSubstr("nan not in range"));
  }
}

}  // namespace
}  // namespace castor::testing
