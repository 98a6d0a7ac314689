// Each family against PyTorch and Hugging Face: the models of tests/fixtures/,
// whose README says how they were made. A family adds fixtures and no code.
//
// Tolerances. The fixtures hold float64 results. Both PyTorch's float32 runs
// and ours sum in some order in float32; errors of two orders of summation have
// the same size, which grows with the lengths of the sums.
// `torch_float32_error` is PyTorch's largest error per tensor, of several runs
// that round differently; ours may be kErrorRatio times that, plus two units in
// the last place of the tensor's largest value for roundings where PyTorch's
// error happens to vanish. PyTorch's error in 16 bits is that of one run, and
// ours may be kHalfErrorRatio times that.
//
// Mistakes. Each fixture must tell a model that is slightly another one: the
// same logits, of a model made wrong on purpose, must be off by kVisible times
// that tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "base/name_pattern.h"
#include "models/families.h"
#include "run/optim/adam/adam.h"
#include "runtime/weights/pretrained.h"
#include "runtime/weights/safetensors.h"
#include "tests/model_logits.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr double kErrorRatio = 4;
constexpr double kHalfErrorRatio = 8;
constexpr double kUnit = 1.2e-7;  // 2^-23
constexpr double kVisible = 20;

constexpr char kFixtures[] = "tests/fixtures";

std::string Fixture(const std::string& name, const std::string& file) {
  return std::string(kFixtures) + "/" + name + "/" + file;
}

std::vector<std::string> FixtureNames() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(kFixtures, ignored)) {
    if (std::filesystem::exists(entry.path() / "hf/config.json") &&
        std::filesystem::exists(entry.path() / "expected.json")) {
      names.push_back(entry.path().filename());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

nlohmann::json Expected(const std::string& name) {
  std::ifstream in(Fixture(name, "expected.json"));
  return nlohmann::json::parse(in);
}

// Micro batch `index` of an encoder's fixture. A sequence's padding is a
// document of its own.
MicroBatch EncoderBatch(const nlohmann::json& expected, int64_t index) {
  const nlohmann::json& inputs = expected["inputs"][index];
  MicroBatch batch = {.tokens = inputs["tokens"],
                      .targets = inputs["targets"],
                      .segments = inputs["segments"]};
  if (inputs.contains("sequence_targets")) {
    batch.other_targets = {inputs["sequence_targets"]};
  }
  const int32_t length = expected["sequence_length"];
  for (const int32_t end : inputs["lengths"]) {
    for (int32_t t = 0; t < length; ++t) {
      batch.documents.push_back(t < end ? DocumentRange{0, end}
                                        : DocumentRange{t, t + 1});
    }
  }
  return batch;
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

ModelConfig ModelOf(const std::string& name) {
  ModelConfig model;
  model.pretrained = Fixture(name, "hf");
  std::vector<std::string> notes;
  const absl::Status read = models::LoadPretrained(&model, &notes);
  EXPECT_TRUE(read.ok()) << read;
  return model;
}

TrainingCase CaseOf(const std::string& name, const nlohmann::json& expected) {
  TrainingCase c;
  const ModelConfig model = ModelOf(name);
  c.architecture = model.architecture;
  c.options.shape = {.batch = expected["train_micro_batch_size_per_gpu"],
                     .length = expected["sequence_length"].get<int64_t>(),
                     .terms = TermsOf(c)};
  c.options.threads = 2;
  c.options.optimizer.rule = std::make_shared<Adam>(
      AdamOptions{.betas = {expected["betas"][0].get<double>(),
                            expected["betas"][1].get<double>()},
                  .eps = expected["eps"].get<double>()});
  c.options.learning_rate = [lr = expected["lr"].get<double>()](int64_t) {
    return lr;
  };
  c.source = [name, model](const Parameters& parameters)
      -> absl::StatusOr<std::unique_ptr<ParameterSource>> {
    return PretrainedSource::Open(Fixture(name, "hf"), parameters,
                                  models::FamilyOf(model).hf_names());
  };
  if (expected.contains("inputs")) {
    c.options.shape.documents = c.options.shape.segments = true;
    c.data = [&expected](int64_t index) {
      return EncoderBatch(expected, index);
    };
    return c;
  }
  c.data = [tokens = Tokens(name), shape = c.options.shape](int64_t index) {
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
  return c;
}

// Values of a safetensors file, whole tensors.
std::vector<float> ValuesOf(const SafetensorsFile& file,
                            const std::string& name) {
  const SafetensorsTensor* tensor = file.Find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return {};
  std::vector<float> values(tensor->elements);
  const absl::Status read =
      file.ReadFloats(name, 0, tensor->elements, values.data());
  EXPECT_TRUE(read.ok()) << read;
  return values;
}

struct Distance {
  double worst = 0;    // the largest between two elements
  double largest = 0;  // the largest expected element
};

Distance Between(const std::vector<float>& ours, double scale,
                 const std::vector<float>& theirs) {
  EXPECT_EQ(ours.size(), theirs.size());
  Distance distance;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    distance.largest = std::max<double>(distance.largest, std::abs(theirs[i]));
    const double off = std::abs(ours[i] * scale - theirs[i]);
    distance.worst = std::isnan(off) ? INFINITY : std::max(distance.worst, off);
  }
  return distance;
}

double Limit(double torch_error, double largest, double unit = kUnit) {
  const double ratio = unit == kUnit ? kErrorRatio : kHalfErrorRatio;
  return ratio * torch_error + 2 * unit * largest;
}

// Largest distance of a part of the trainer's state from a safetensors file,
// parameter by parameter, held against PyTorch's own.
void ExpectNear(Trainer& trainer, StatePart part, double scale,
                const std::string& file, const nlohmann::json& torch_error,
                double unit = kUnit) {
  auto reference = SafetensorsFile::Open(file);
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_EQ(trainer.parameters().size(), (*reference)->tensors().size());
  for (const auto& parameter : trainer.parameters()) {
    const int64_t n = parameter->elements();
    std::vector<float> ours(n);
    ASSERT_TRUE(trainer.store()
                    .ReadState(parameter->chunk, part, parameter->offset,
                               parameter->offset + n, ours.data())
                    .ok());
    const Distance distance =
        Between(ours, scale, ValuesOf(**reference, parameter->name));
    EXPECT_LE(distance.worst, Limit(torch_error[parameter->name].get<double>(),
                                    distance.largest, unit))
        << parameter->name;
  }
}

// --- Steps, on the memory manager.

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

struct Placement {
  bool checkpoint;
  const char* policy;
};

class FamilyReference
    : public ::testing::TestWithParam<std::tuple<std::string, Placement>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  TrainingCase Placed(const nlohmann::json& expected) const {
    TrainingCase c = CaseOf(name(), expected);
    c.options.activation_checkpointing = std::get<1>(GetParam()).checkpoint
                                             ? ActivationCheckpointing::kBlock
                                             : ActivationCheckpointing::kNone;
    c.options.memory.policy = FindPolicy(std::get<1>(GetParam()).policy);
    return c;
  }
  TrainingCase OneStep(const nlohmann::json& expected) const {
    TrainingCase c = Placed(expected);
    TakeOneStep(&c);
    return c;
  }
};

TEST_P(FamilyReference, GradientsAreHuggingFaces) {
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
      Limit(expected["torch_float32_error"]["loss"].get<double>(), loss));
}

TEST_P(FamilyReference, FiveStepsOfAdamWArePyTorchs) {
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
TEST_P(FamilyReference, GradientsIn16BitsAreAsNearAsPyTorchs) {
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

INSTANTIATE_TEST_SUITE_P(
    Fixtures, FamilyReference,
    ::testing::Combine(::testing::ValuesIn(FixtureNames()),
                       ::testing::Values(Placement{false, "cuda"},
                                         Placement{true, "cpu"})),
    [](const auto& info) {
      return std::get<0>(info.param) + "_" + std::get<1>(info.param).policy;
    });

// --- Labels of which some do not count.

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

TEST(MaskedReference, GradientsAreThoseOfTheWholeBatchsMean) {
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

TEST(MaskedReference, StepsOfAdamWArePyTorchsOnAnyNumberOfRanks) {
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

// --- Logits, in plain memory, of the model and of wrong ones.

// Changes a parameter's values, [rows, columns] or [rows].
using Change = std::function<void(const std::string& name, int64_t rows,
                                  int64_t columns, std::vector<float>* values)>;

class FamilyLogits : public ::testing::TestWithParam<std::string> {
 protected:
  FamilyLogits()
      : expected_(Expected(GetParam())), model_(ModelOf(GetParam())) {
    auto weights = SafetensorsModel::Open(Fixture(GetParam(), "hf"));
    EXPECT_TRUE(weights.ok()) << weights.status();
    weights_ = std::move(*weights);
  }

  // The model with these of its keys changed, in Castor's words.
  ModelConfig With(const nlohmann::json& changes) const {
    nlohmann::json keys = model_.architecture->ToJson();
    keys.update(changes);
    JsonReport report("changed");
    JsonReader reader(keys, report);
    ModelConfig changed = model_;
    changed.architecture = models::FamilyOf(model_).Read(reader);
    EXPECT_TRUE(report.status().ok()) << report.status();
    return changed;
  }

  // Returns how far the logits are from the expected ones, in units of the
  // limit.
  double OffBy(const ModelConfig& model, const Change& change = nullptr) const {
    const TrainingCase c = CaseOf(GetParam(), expected_);
    const MicroBatch first = c.data(0);
    auto logits = LogitsOf(
        model,
        [&](const Parameter& parameter) -> absl::StatusOr<std::vector<float>> {
          const int64_t n = parameter.elements();
          std::vector<float> values(n);
          const absl::Status read =
              weights_->ReadFloats(parameter.name, 0, n, values.data());
          if (!read.ok()) return read;
          const int64_t rows = parameter.shape[0];
          if (change) change(parameter.name, rows, n / rows, &values);
          return values;
        },
        c.options.shape, first);
    EXPECT_TRUE(logits.ok()) << logits.status();
    auto file =
        SafetensorsFile::Open(Fixture(GetParam(), "logits.safetensors"));
    EXPECT_TRUE(file.ok()) << file.status();
    if (!logits.ok() || !file.ok()) return 0;
    std::vector<float> theirs = ValuesOf(**file, "logits");
    if (expected_.contains("inputs")) {
      KeepWhatCounts(c.options.shape, first, &*logits, &theirs);
    }
    const Distance distance = Between(*logits, 1, theirs);
    return distance.worst /
           Limit(expected_["torch_float32_error"]["logits"].get<double>(),
                 distance.largest);
  }

  // Leaves those of an encoder's logits [B, T, V] that are of no padding. Where
  // a sequence has one label, the logits [B, V] of its first token are left.
  static void KeepWhatCounts(const StepShape& shape, const MicroBatch& batch,
                             std::vector<float>* ours,
                             std::vector<float>* theirs) {
    const size_t width = ours->size() / batch.tokens.size();
    const bool each = theirs->size() == ours->size();
    std::vector<float> kept, expected;
    for (size_t at = 0; at < batch.tokens.size(); ++at) {
      const bool is_first = at % static_cast<size_t>(shape.length) == 0;
      if (each ? batch.documents[at].begin != 0 : !is_first) continue;
      const auto from = [&](const std::vector<float>& x, size_t row) {
        return x.begin() + static_cast<ptrdiff_t>(row * width);
      };
      kept.insert(kept.end(), from(*ours, at), from(*ours, at + 1));
      if (each) {
        expected.insert(expected.end(), from(*theirs, at),
                        from(*theirs, at + 1));
      }
    }
    *ours = std::move(kept);
    if (each) *theirs = std::move(expected);
  }

  const nlohmann::json expected_;
  const ModelConfig model_;
  std::unique_ptr<SafetensorsModel> weights_;
};

TEST_P(FamilyLogits, AreHuggingFaces) { EXPECT_LE(OffBy(model_), 1); }

// Moves rows of `values` [rows, columns]: row `i` comes from `from(i)`.
void MoveRows(int64_t rows, int64_t columns, std::vector<float>* values,
              const std::function<int64_t(int64_t)>& from) {
  const std::vector<float> old = *values;
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(old.begin() + from(i) * columns, columns,
                values->begin() + i * columns);
  }
}

bool IsPart(const std::string& name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) {
    return absl::StrContains(name, std::string(".") + part + ".");
  });
}

// Wrong numbers in the configuration, and weights so permuted that the right
// program computes of them what a wrong one would of the right weights.
TEST_P(FamilyLogits, TellEachMistake) {
  const nlohmann::json keys = model_.architecture->ToJson();
  for (const char* epsilon :
       {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"}) {
    if (!keys.contains(epsilon)) continue;
    EXPECT_GT(OffBy(With({{epsilon, 1e-3}})), kVisible) << epsilon;
  }
  for (const char* key : {"activation_function", "hidden_act"}) {
    const auto activation = keys.find(key);
    // Llama and its relatives have one.
    if (activation == keys.end() || *activation == "silu") continue;
    EXPECT_GT(OffBy(With({{key, *activation == "gelu" ? "gelu_new" : "gelu"}})),
              kVisible);
  }
  if (model_.type == "opt") {
    // The positions' table begins two rows before the first.
    const Change shift = [](const std::string& name, int64_t rows,
                            int64_t columns, std::vector<float>* values) {
      if (IsPart(name, {"embed_positions"})) {
        MoveRows(rows, columns, values,
                 [&](int64_t row) { return (row + 1) % rows; });
      }
    };
    EXPECT_GT(OffBy(model_, shift), kVisible) << "positions";
  }
  if (expected_.contains("inputs")) {
    // Another segment, and positions that begin one later.
    for (const char* part : {"token_type_embeddings", "position_embeddings"}) {
      const Change shift = [part](const std::string& name, int64_t rows,
                                  int64_t columns, std::vector<float>* values) {
        if (IsPart(name, {part})) {
          MoveRows(rows, columns, values,
                   [&](int64_t row) { return (row + 1) % rows; });
        }
      };
      if (keys["type_vocab_size"] == 1 && *part == 't') continue;
      EXPECT_GT(OffBy(model_, shift), kVisible) << part;
    }
  }
  if (const auto window = keys.find("sliding_window");
      window != keys.end() && !window->is_null()) {
    const int64_t right = *window;
    EXPECT_GT(OffBy(With({{"sliding_window", right + 1}})), kVisible);
    if (right > 1) {
      EXPECT_GT(OffBy(With({{"sliding_window", right - 1}})), kVisible);
    }
  }
  if (const auto rope = keys.find("rope_parameters"); rope != keys.end()) {
    nlohmann::json wrong = {{"rope_type", "default"},
                            {"rope_theta", (*rope)["rope_theta"]}};
    if ((*rope)["rope_type"] == "default") {
      wrong["rope_theta"] = 2 * wrong["rope_theta"].get<double>();
    }
    EXPECT_GT(OffBy(With({{"rope_parameters", wrong}})), kVisible)
        << "without " << *rope;
    // Pairs of neighbours instead of a head's two halves.
    const int64_t head = keys["head_dim"];
    const auto pairs = [head](int64_t row) {
      const int64_t d = row % head;
      return row - d + d / 2 + (d % 2) * (head / 2);
    };
    const Change swap_pairs = [&](const std::string& name, int64_t rows,
                                  int64_t columns, std::vector<float>* values) {
      if (IsPart(name, {"q_proj", "k_proj", "q_norm", "k_norm"})) {
        MoveRows(rows, columns, values, pairs);
      }
    };
    EXPECT_GT(OffBy(model_, swap_pairs), kVisible) << "pairs";
  }
  if (const auto kv_heads = keys.find("num_key_value_heads");
      kv_heads != keys.end()) {
    // Each group of query heads sees the next group's key and value.
    ASSERT_GT(kv_heads->get<int64_t>(), 1);
    const int64_t head = keys["head_dim"];
    const Change next_head = [&](const std::string& name, int64_t rows,
                                 int64_t columns, std::vector<float>* values) {
      if (IsPart(name, {"k_proj", "v_proj"})) {
        MoveRows(rows, columns, values,
                 [&](int64_t row) { return (row + head) % rows; });
      }
    };
    EXPECT_GT(OffBy(model_, next_head), kVisible) << "key-value heads";
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, FamilyLogits,
                         ::testing::ValuesIn(FixtureNames()),
                         [](const auto& info) { return info.param; });

// Were the fixtures not found, nothing above would say so.
TEST(FamilyFixtures, AreThreeOfEachFamily) {
  std::map<std::string, int> fixtures;
  for (const std::string& name : FixtureNames()) ++fixtures[ModelOf(name).type];
  for (const models::Family* family : models::Families()) {
    EXPECT_GE(fixtures[std::string(family->name())], 3) << family->name();
  }
}

}  // namespace
}  // namespace castor::testing
