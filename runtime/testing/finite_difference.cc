#include "runtime/testing/finite_difference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "run/optim/adam/adam.h"
#include "runtime/autograd/tape.h"
#include "runtime/nn/model.h"
#include "runtime/nn/modules.h"
#include "runtime/nn/zero_init.h"
#include "runtime/ops/head_loss.h"
#include "runtime/testing/eager_backend.h"
#include "runtime/train/micro_batch.h"
#include "runtime/train/trainer.h"

namespace castor::testing {
namespace {

constexpr double kStep = 1.0 / 16;
// Roundings on one path: inner products of up to 8 terms, a norm, a softmax.
constexpr double kRoundings = 16;
constexpr double kUnitRoundoff = 1.0 / (1 << 24);
// A parameter's largest gradient is at least so many tolerances.
constexpr double kVisible = 20;

class FunctionModel final : public Model {
 public:
  explicit FunctionModel(LossFunction loss) : loss_(std::move(loss)) {}
  absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                              const Tensor& targets) override {
    return loss_(engine, tokens, targets);
  }

 private:
  LossFunction loss_;
};

// Values of order 1 around the initial mean: the gradients are then of order 1
// over the number of rows, and no bias is a special 0.
class SpreadValues final : public ParameterSource {
 public:
  explicit SpreadValues(uint64_t seed) : normal_(seed) {}
  absl::Status Read(const Parameter& parameter, StatePart part, int64_t begin,
                    int64_t end, float* out) override {
    Parameter spread;
    spread.name = parameter.name;
    spread.init = {.mean = parameter.init.mean, .stddev = 0.5f};
    return normal_.Read(spread, part, begin, end, out);
  }

 private:
  InitialValues normal_;
};

MicroBatch BatchOf(const GradientCase& c) {
  MicroBatch batch;
  const int64_t size = c.shape.batch * c.shape.length;
  const RandomKey key = {c.seed, 0};
  for (int64_t i = 0; i < size; ++i) {
    const auto words = Philox4x32(key, static_cast<uint64_t>(i));
    // The first tokens are all different: every row of the table has a use.
    batch.tokens.push_back(
        static_cast<int32_t>(i < c.vocabulary ? i : words[0] % c.vocabulary));
    batch.targets.push_back(static_cast<int32_t>(words[1] % c.vocabulary));
  }
  if (!c.targets.empty()) batch.targets = c.targets;
  batch.documents = c.documents;
  return batch;
}

// The model on the eager backend.
class Eager {
 public:
  Eager(const GradientCase& c, Engine& engine, Model& model,
        const ChunkLayout* layout)
      : c_(c), engine_(engine), model_(model), backend_(layout) {
    engine_.SetBackend(&backend_);
    engine_.SetLayout(layout);
  }
  ~Eager() {
    engine_.SetBackend(nullptr);
    engine_.SetLayout(nullptr);
  }

  std::vector<float> Values(ChunkId chunk) { return backend_.values(chunk); }
  void SetValues(ChunkId chunk, std::vector<float> values) {
    backend_.SetValues(chunk, std::move(values));
  }
  const std::vector<float>& gradients(ChunkId chunk) const {
    return backend_.gradients(chunk);
  }

  absl::Status Train() {
    engine_.SetLossGradient(/*loss_scale=*/1, {labels_});
    for (int64_t i = 0; i < c_.shape.micro_batches; ++i) {
      CASTOR_RETURN_IF_ERROR(
          RunMicroBatch(engine_, model_, c_.shape, i, i, BatchOf(c_)).status());
    }
    CASTOR_RETURN_IF_ERROR(engine_.UpdateParameters());
    if (backend_.live_storages() != 0) {
      return absl::InternalError(absl::StrCat(
          backend_.live_storages(), " tensors are alive after the step"));
    }
    return absl::OkStatus();
  }

  // The mean over the labelled tokens of the loss in training mode.
  absl::StatusOr<double> Loss() {
    double sum = 0;
    for (int64_t i = 0; i < c_.shape.micro_batches; ++i) {
      Tape tape(&engine_);
      MicroBatch batch = BatchOf(c_);
      const Shape sizes = {c_.shape.batch, c_.shape.length};
      RowDocuments rows;
      engine_.BeginMicroBatch({.index = i,
                               .count = c_.shape.micro_batches,
                               .global_index = i,
                               .training = true,
                               .tape = &tape});
      const absl::Cleanup leaves = [this] { engine_.LeaveMicroBatch(); };
      if (c_.shape.documents) {
        CASTOR_RETURN_IF_ERROR(
            SetDocuments(engine_, c_.shape, std::move(batch.documents), &rows));
      }
      CASTOR_ASSIGN_OR_RETURN(
          const Tensor tokens,
          engine_.Upload("tokens", sizes, std::move(batch.tokens)));
      CASTOR_ASSIGN_OR_RETURN(
          const Tensor targets,
          engine_.Upload("targets", sizes, std::move(batch.targets)));
      CASTOR_ASSIGN_OR_RETURN(const Tensor loss,
                              model_.Loss(engine_, tokens, targets));
      sum += *static_cast<const float*>(backend_.data(loss.storage_id()));
    }
    return sum / static_cast<double>(labels_);
  }

 private:
  const GradientCase& c_;
  // The whole batch has these; every micro batch has the same tokens.
  const int64_t labels_ =
      CountLabels(BatchOf(c_).targets) * c_.shape.micro_batches;
  Engine& engine_;
  Model& model_;
  EagerBackend backend_;
};

struct Slope {
  double value = 0;
  double tolerance = 0;
};

absl::StatusOr<Slope> SlopeOf(Eager& eager, const Parameter& parameter,
                              int64_t element) {
  const std::vector<float> before = eager.Values(parameter.chunk);
  double difference[2], size = 1;
  for (int i = 0; i < 2; ++i) {
    const float at = before[parameter.offset + element];
    const float h = static_cast<float>(kStep * (i + 1));
    double loss[2], x[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<float> values = before;
      // The difference is divided by what was really added, after rounding.
      values[parameter.offset + element] = side == 0 ? at + h : at - h;
      x[side] = values[parameter.offset + element];
      eager.SetValues(parameter.chunk, std::move(values));
      CASTOR_ASSIGN_OR_RETURN(loss[side], eager.Loss());
      size = std::max(size, std::abs(loss[side]));
    }
    difference[i] = (loss[0] - loss[1]) / (x[0] - x[1]);
  }
  eager.SetValues(parameter.chunk, before);
  Slope slope;
  slope.value = (4 * difference[0] - difference[1]) / 3;
  slope.tolerance = 1.5 * kRoundings * kUnitRoundoff * size / kStep +
                    std::abs(slope.value - difference[0]) / 10;
  return slope;
}

absl::Status CompareParameter(Eager& eager, const Parameter& parameter,
                              const std::vector<float>& gradients) {
  bool visible = false;
  for (int64_t i = 0; i < parameter.elements(); ++i) {
    const double gradient = gradients[parameter.offset + i];
    CASTOR_ASSIGN_OR_RETURN(const Slope slope, SlopeOf(eager, parameter, i));
    visible |= std::abs(gradient) >= kVisible * slope.tolerance;
    if (std::abs(gradient - slope.value) <= slope.tolerance) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the gradient of \"", parameter.name, "\"[", i, "] is ", gradient,
        ", the loss's slope ", slope.value, " within ", slope.tolerance));
  }
  if (visible) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the gradient of \"", parameter.name,
                   "\" is too small throughout to be told from 0"));
}

// Gradients are found by the parameter's name, since a trainer's chunks are
// others.
using Gradients = std::map<std::string, std::vector<float>>;

absl::Status CompareWithTrainer(const GradientCase& c, Engine& engine,
                                Model& model, const Gradients& expected) {
  TrainerOptions options;
  options.shape = c.shape;
  options.optimizer.rule =
      std::make_shared<Adam>(AdamOptions{.betas = {0.5, 0.999}});
  options.memory.policy = FindPolicy("cpu");
  options.memory.chunk_bytes = 512;
  options.activation_checkpointing = c.kept_blocks.has_value()
                                         ? ActivationCheckpointing::kBlock
                                         : ActivationCheckpointing::kNone;
  options.scribble_freed_memory = true;
  CASTOR_ASSIGN_OR_RETURN(const auto trainer,
                          Trainer::Create(&engine, &model, options));
  SpreadValues values(c.seed);
  CASTOR_RETURN_IF_ERROR(trainer->Initialize(values));
  CASTOR_RETURN_IF_ERROR(
      trainer->Step([&]() -> absl::StatusOr<MicroBatch> { return BatchOf(c); })
          .status());
  CASTOR_RETURN_IF_ERROR(trainer->Drain());
  for (const auto& parameter : engine.parameters()) {
    if (!parameter->trainable) continue;
    const int64_t n = parameter->elements();
    std::vector<float> m(n);
    CASTOR_RETURN_IF_ERROR(trainer->store().ReadState(
        parameter->chunk, Adam::kM, parameter->offset, parameter->offset + n,
        m.data()));
    const std::vector<float>& gradient = expected.at(parameter->name);
    for (int64_t i = 0; i < n; ++i) {
      if (m[i] == 0.5f * gradient[i]) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "the gradient of \"", parameter->name, "\"[", i, "] is ", gradient[i],
          " in plain memory and ", 2 * m[i], " in managed memory"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGradients(const GradientCase& c) {
  Engine engine(DType::kFloat32, c.seed);
  ZeroInit scope(engine);
  FunctionModel model(c.make());
  CASTOR_RETURN_IF_ERROR(engine.construction_status());
  for (const std::string& name : c.frozen) {
    Parameter* const parameter = engine.FindParameter(name);
    if (parameter == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("no \"", name, "\""));
    }
    parameter->trainable = false;
  }
  engine.set_kept_blocks(c.kept_blocks);
  std::vector<LayoutParameter> parameters;
  for (const auto& parameter : engine.parameters()) {
    parameters.push_back({.name = parameter->name,
                          .elements = parameter->elements(),
                          .trainable = parameter->trainable});
  }
  // A chunk each: what is complete first is reduced first.
  CASTOR_ASSIGN_OR_RETURN(const ChunkLayout layout,
                          MakeChunkLayout(parameters, {.chunk_bytes = 256}));
  Gradients gradients;
  {
    Eager eager(c, engine, model, &layout);
    SpreadValues source(c.seed);
    for (const auto& parameter : engine.parameters()) {
      std::vector<float> values = eager.Values(parameter->chunk);
      CASTOR_RETURN_IF_ERROR(source.Read(*parameter, StatePart::kMaster, 0,
                                         parameter->elements(),
                                         values.data() + parameter->offset));
      eager.SetValues(parameter->chunk, std::move(values));
    }
    CASTOR_RETURN_IF_ERROR(eager.Train());
    for (const auto& parameter : engine.parameters()) {
      if (!parameter->trainable) continue;
      const std::vector<float> all = eager.gradients(parameter->chunk);
      CASTOR_RETURN_IF_ERROR(CompareParameter(eager, *parameter, all));
      const auto begin = all.begin() + parameter->offset;
      gradients[parameter->name] = {begin, begin + parameter->elements()};
    }
  }
  return CompareWithTrainer(c, engine, model, gradients);
}

absl::Status DryPass(const GradientCase& c) {
  Engine engine(DType::kFloat32, c.seed);
  ZeroInit scope(engine);
  FunctionModel model(c.make());
  CASTOR_RETURN_IF_ERROR(engine.construction_status());
  engine.set_kept_blocks(c.kept_blocks);
  return DryRun(engine, model, c.shape, nullptr, c.shape.micro_batches > 1, {})
      .status();
}

absl::Status CheckRefusal(const GradientCase& c,
                          const std::vector<std::string>& parts) {
  const absl::Status status = DryPass(c);
  if (!absl::IsInvalidArgument(status)) {
    return absl::FailedPreconditionError(
        absl::StrCat("not refused as a bad request: ", status.ToString()));
  }
  for (const std::string& part : parts) {
    if (status.message().find(part) != absl::string_view::npos) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("no ", part, " in: ", status.message()));
  }
  return absl::OkStatus();
}

std::function<LossFunction()> Between(int64_t in, int64_t out,
                                      std::function<Layer()> make,
                                      int64_t vocabulary) {
  return [=]() -> LossFunction {
    const nn::Embedding wte("wte", vocabulary, in);
    const Layer layer = make();
    Parameter& head = MakeParameter("head.weight", {vocabulary, out}, {});
    return [=, &head](Engine& engine, const Tensor& tokens,
                      const Tensor& targets) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(Tensor x, wte(engine, tokens));
      CASTOR_ASSIGN_OR_RETURN(x, layer(engine, x));
      return ops::HeadLoss(engine, x, head, targets);
    };
  };
}

}  // namespace castor::testing
