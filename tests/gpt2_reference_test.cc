// GPT-2 against PyTorch and Hugging Face: the fixtures of tests/fixtures/,
// whose README says how they were made.
//
// Tolerances. The fixtures hold float64 results. Both PyTorch's float32 run and
// ours sum in some order in float32; errors of two orders of summation have the
// same size. `torch_float32_error` is PyTorch's largest error per tensor; ours
// may be kErrorRatio times that, plus two units in the last place of the
// tensor's largest value for roundings where PyTorch's error happens to vanish.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/name_pattern.h"
#include "base/philox.h"
#include "models/families.h"
#include "runtime/optim/adam/adam.h"
#include "runtime/weights/pretrained.h"
#include "runtime/weights/safetensors.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr double kErrorRatio = 8;
constexpr double kUnit = 1.2e-7;  // 2^-23

std::string Fixture(const std::string& name, const std::string& file) {
  return "tests/fixtures/" + name + "/" + file;
}

nlohmann::json Expected(const std::string& name) {
  std::ifstream in(Fixture(name, "expected.json"));
  return nlohmann::json::parse(in);
}

std::vector<uint16_t> Tokens(const std::string& name) {
  std::ifstream in(Fixture(name, "tokens.bin"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::vector<uint16_t> tokens(bytes.size() / 2);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<uint16_t>(
        static_cast<unsigned char>(bytes[2 * i]) |
        static_cast<unsigned char>(bytes[2 * i + 1]) << 8);
  }
  return tokens;
}

// The fixture's training from the weights of `name`, on the batches of
// BatchesOf.
TrainingCase CaseOf(const std::string& name, const nlohmann::json& expected) {
  TrainingCase c;
  auto model = ReadGpt2(Fixture(name, "hf"));
  EXPECT_TRUE(model.ok()) << model.status();
  c.model = *model;
  c.model.resid_pdrop = c.model.embd_pdrop = c.model.attn_pdrop = 0;
  c.options.shape = {.batch = 2,
                     .length = expected["sequence_length"].get<int64_t>()};
  c.options.threads = 2;
  c.options.optimizer.rule = std::make_shared<Adam>(
      AdamOptions{.betas = {expected["betas"][0].get<double>(),
                            expected["betas"][1].get<double>()},
                  .eps = expected["eps"].get<double>()});
  c.options.learning_rate = [lr = expected["lr"].get<double>()](int64_t) {
    return lr;
  };
  c.source = [name](const Parameters& parameters)
      -> absl::StatusOr<std::unique_ptr<ParameterSource>> {
    return PretrainedSource::Open(Fixture(name, "hf"), parameters,
                                  models::FindFamily("gpt2")->hf_names());
  };
  return c;
}

std::function<MicroBatch(int64_t)> BatchesOf(const std::string& name,
                                             const StepShape& shape) {
  return [tokens = Tokens(name), shape](int64_t index) {
    MicroBatch batch;
    for (int64_t b = 0; b < shape.batch; ++b) {
      const int64_t start = (index * shape.batch + b) * shape.length;
      for (int64_t t = 0; t < shape.length; ++t) {
        batch.tokens.push_back(tokens[start + t]);
        batch.targets.push_back(tokens[start + t + 1]);
      }
    }
    return batch;
  };
}

// Largest distance of a part of the trainer's state from a safetensors file,
// parameter by parameter, held against PyTorch's own.
void ExpectNear(Trainer& trainer, StatePart part, double scale,
                const std::string& file, const nlohmann::json& torch_error,
                double unit = kUnit) {
  auto reference = SafetensorsFile::Open(file);
  ASSERT_TRUE(reference.ok()) << reference.status();
  for (const auto& parameter : trainer.parameters()) {
    const int64_t n = parameter->elements();
    std::vector<float> ours(n), theirs(n);
    ASSERT_TRUE(trainer.store()
                    .ReadState(parameter->chunk, part, parameter->offset,
                               parameter->offset + n, ours.data())
                    .ok());
    ASSERT_TRUE(
        (*reference)->ReadFloats(parameter->name, 0, n, theirs.data()).ok())
        << parameter->name;
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      largest = std::max<double>(largest, std::abs(theirs[i]));
      worst = std::max(worst, std::abs(ours[i] * scale - theirs[i]));
    }
    const double limit =
        kErrorRatio * torch_error[parameter->name].get<double>() +
        2 * unit * largest;
    EXPECT_LE(worst, limit) << parameter->name;
  }
}

// One step from m = 0 without clipping leaves m = (1 - beta1) g.
void TakeOneStep(TrainingCase* c) {
  c->steps = 1;
  c->options.optimizer.rule =
      std::make_shared<Adam>(AdamOptions{.betas = {0.5, 0.95}, .eps = 1e-5});
}

// Clipped, with weight decay.
void TakeSteps(const nlohmann::json& expected, TrainingCase* c) {
  c->steps = expected["steps"];
  c->options.shape.micro_batches = expected["gradient_accumulation_steps"];
  c->options.optimizer.gradient_clipping = expected["gradient_clipping"];
  c->options.weight_decay = [&expected](const Parameter& parameter) {
    const std::vector<std::string> none = expected["no_decay"];
    return MatchesAnyPattern(none, parameter.name)
               ? 0.0
               : expected["weight_decay"].get<double>();
  };
}

class Gpt2Reference
    : public ::testing::TestWithParam<
          std::tuple<const char*, bool, const PlacementPolicy*>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  TrainingCase Placed(const nlohmann::json& expected) const {
    TrainingCase c = CaseOf(name(), expected);
    c.data = BatchesOf(name(), c.options.shape);
    c.options.checkpoint_activations = std::get<1>(GetParam());
    c.options.memory.policy = std::get<2>(GetParam());
    return c;
  }
  TrainingCase OneStep(const nlohmann::json& expected) const {
    TrainingCase c = Placed(expected);
    TakeOneStep(&c);
    return c;
  }
};

TEST_P(Gpt2Reference, GradientsAreHuggingFaces) {
  const nlohmann::json expected = Expected(name());
  const TrainingCase c = OneStep(expected);
  auto result = RunTraining(c, [&](Trainer& trainer) {
    ExpectNear(trainer, Adam::kM, 2.0, Fixture(name(), "grads.safetensors"),
               expected["torch_float32_error"]["grads"]);
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.ok()) << result.status();
  const double loss = expected["loss"];
  EXPECT_NEAR(
      result->losses[0], loss,
      kErrorRatio * expected["torch_float32_error"]["loss"].get<double>() +
          2 * kUnit * loss);
}

TEST_P(Gpt2Reference, FiveStepsOfAdamWArePyTorchs) {
  const nlohmann::json expected = Expected(name());
  TrainingCase c = Placed(expected);
  TakeSteps(expected, &c);
  ASSERT_EQ(c.steps, 5);
  auto result = RunTraining(c, [&](Trainer& trainer) {
    EXPECT_NEAR(trainer.gradient_norm(), expected["grad_norms"][4], 1e-5);
    ExpectNear(trainer, StatePart::kMaster, 1.0,
               Fixture(name(), "params_after.safetensors"),
               expected["torch_float32_error"]["params_after"]);
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.ok()) << result.status();
  for (int step = 0; step < 5; ++step) {
    const double loss = expected["losses"][step];
    // Parameters differ by their own errors by then; the loss's slope is the
    // gradient, whose norm the fixture has.
    EXPECT_NEAR(result->losses[step], loss, 1e-5 * loss) << step;
  }
}

// PyTorch's errors in 16 bits come from the same roundings as ours, but for the
// loss's own: PyTorch's is rounded to 16 bits as well.
TEST_P(Gpt2Reference, GradientsIn16BitsAreAsNearAsPyTorchs) {
  const nlohmann::json expected = Expected(name());
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const double unit = dtype == DType::kFloat16 ? 0x1p-10 : 0x1p-7;
    const nlohmann::json& torch_error =
        expected["torch_half_error"][std::string(DTypeName(dtype))];
    TrainingCase c = OneStep(expected);
    c.dtype = dtype;
    c.options.loss_scale = {.dynamic = false,
                            .initial = expected["loss_scale"]};
    auto result = RunTraining(c, [&](Trainer& trainer) {
      ExpectNear(trainer, Adam::kM, 2.0, Fixture(name(), "grads.safetensors"),
                 torch_error["grads"], unit);
      return absl::OkStatus();
    });
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->state.skipped_steps, 0);
    const double loss = expected["loss"];
    EXPECT_NEAR(result->losses[0], loss,
                torch_error["loss"].get<double>() + unit * loss);
  }
}

// Micro batches with all, some, one and none of their targets labelled.
TrainingCase Masked(const nlohmann::json& expected) {
  TrainingCase c = CaseOf(expected["model"], expected);
  c.options.shape.micro_batches = expected["gradient_accumulation_steps"];
  c.data = [&expected](int64_t index) {
    const int64_t in_step = expected["gradient_accumulation_steps"];
    const int64_t step = index / in_step;
    return MicroBatch{expected["tokens"][step][index % in_step],
                      expected["targets"][step][index % in_step]};
  };
  return c;
}

TEST(MaskedGpt2Reference, GradientsAreThoseOfTheWholeBatchsMean) {
  const nlohmann::json expected = Expected("gpt2_masked");
  TrainingCase c = Masked(expected);
  TakeOneStep(&c);
  const auto result = RunTraining(c, [&](Trainer& trainer) {
    ExpectNear(trainer, Adam::kM, 2.0,
               Fixture("gpt2_masked", "grads.safetensors"),
               expected["torch_float32_error"]["grads"]);
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.ok()) << result.status();
}

TEST(MaskedGpt2Reference, StepsOfAdamWArePyTorchsOnAnyNumberOfRanks) {
  const nlohmann::json expected = Expected("gpt2_masked");
  for (const int world_size : {1, 2, 4}) {
    TrainingCase c = Masked(expected);
    TakeSteps(expected, &c);
    c.world_size = world_size;
    const auto result = RunTraining(c, [&](Trainer& trainer) {
      EXPECT_NEAR(trainer.gradient_norm(), expected["grad_norms"].back(), 1e-5);
      if (world_size > 1) return absl::OkStatus();  // it has a shard
      ExpectNear(trainer, StatePart::kMaster, 1.0,
                 Fixture("gpt2_masked", "params_after.safetensors"),
                 expected["torch_float32_error"]["params_after"]);
      return absl::OkStatus();
    });
    ASSERT_TRUE(result.ok()) << result.status();
    for (size_t step = 0; step < result->losses.size(); ++step) {
      const double loss = expected["losses"][step];
      EXPECT_NEAR(result->losses[step], loss, 1e-6 * loss) << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, Gpt2Reference,
    ::testing::Combine(::testing::Values("gpt2_a", "gpt2_b", "gpt2_c"),
                       ::testing::Bool(),
                       ::testing::Values(FindPolicy("cuda"),
                                         FindPolicy("cpu"))));

}  // namespace
}  // namespace castor::testing
