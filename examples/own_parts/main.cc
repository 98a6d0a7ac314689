// Parts of your own: an operator, an optimizer, an encoder with a head that
// classifies, and a run that is saved, resumed, planned and traced, by one rank
// or by as many as a launcher starts (torchrun, srun, mpirun), to the same
// bits.
//
//   own_parts FOLDER STEPS [TRACE_FILE]
//
// trains to step STEPS, from FOLDER's newest checkpoint where there is one. The
// model reads 16 numbers and says whether the last one is odd; only the first
// position has a label, so that attention has to look ahead.
#include <castor/castor.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace {

using namespace castor;  // NOLINT: a program's own file
constexpr int64_t kLength = 16, kWidth = 32, kHeads = 4, kNumbers = 10;
constexpr int64_t kMicroBatches = 2;  // in a step, of all ranks together

// y = max(x, 0)^2, an operator that Castor does not have, for fp32 on the host:
// what one element of one array becomes of one of another.
using Formula = float (*)(float x, float dy);

absl::StatusOr<Tensor> Elementwise(Engine& engine, const std::string& name,
                                   const Tensor& x, const Tensor* dy,
                                   Formula formula) {
  if (x.dtype() != DType::kFloat32) {
    return absl::UnimplementedError(name + " computes in fp32 alone");
  }
  Op op(engine, name);
  const int in = op.Read(x);
  const int in_dy = dy == nullptr ? -1 : op.Read(*dy);
  const int out = op.Output(x.shape(), x.dtype());
  op.Cost(/*flops=*/0, /*bytes=*/8.0 * x.shape().elements());
  CASTOR_RETURN_IF_ERROR(
      op.Run([=, size = x.shape().elements()](const Pointers& p,
                                              const ExecContext& context) {
        if (context.gpu != nullptr) {
          return absl::UnimplementedError("no kernel of ours is for a GPU");
        }
        const float* const xs = p.as<const float>(in);
        const float* const dys = p.as<const float>(in_dy);
        float* const ys = p.as<float>(out);
        for (int64_t i = 0; i < size; ++i) {
          ys[i] = formula(xs[i], dys == nullptr ? 0 : dys[i]);
        }
        return absl::OkStatus();
      }));
  return op.output(out);
}

absl::StatusOr<Tensor> SquaredRelu(Engine& engine, const Tensor& x,
                                   const std::string& site) {
  CASTOR_ASSIGN_OR_RETURN(
      Tensor y, Elementwise(engine, site + "/forward", x, /*dy=*/nullptr,
                            [](float x, float) {
                              const float positive = std::max(x, 0.0f);
                              return positive * positive;
                            }));
  if (engine.grad_mode() == GradMode::kOff || !x.requires_grad()) return y;
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y, [&engine, x, site](Tensor dy, GradientSink& sink) -> absl::Status {
        CASTOR_ASSIGN_OR_RETURN(Tensor dx,
                                Elementwise(engine, site + "/backward", x, &dy,
                                            [](float x, float dy) {
                                              return 2 * std::max(x, 0.0f) * dy;
                                            }));
        return sink.Add(engine, x.id(), std::move(dx));
      });
  return y;
}

// An optimizer of our own: a step by the sign of a fading sum of gradients
// (Bernstein et al., "signSGD", 2018: Signum), for fp32 on the host.
class Signum final : public Optimizer {
 public:
  absl::string_view name() const override { return "Signum"; }
  std::vector<StateSlot> SlotsIn(MomentFormat) const override {
    return {{"momentum"}};
  }
  OrderedJson Params() const override { return {{"beta", kBeta}}; }
  absl::Status Update(const UpdateStep& step,
                      absl::Span<const UpdateRange> ranges,
                      const UpdateArrays& arrays,
                      const ExecContext& context) const override {
    if (arrays.dtype != DType::kFloat32 || context.gpu != nullptr) {
      return absl::UnimplementedError("Signum is for fp32 on the host");
    }
    float* const payload = reinterpret_cast<float*>(arrays.payload);
    const float* const gradients =
        arrays.gradient_sum != nullptr ? arrays.gradient_sum : payload;
    float* const master = arrays.states.masters();
    float* const momentum = arrays.states.slot(0);
    const float scale = *arrays.gradient_scale;
    for (const UpdateRange& range : ranges) {
      const float lr = static_cast<float>(step.lr * range.lr_factor);
      for (int64_t i = range.begin; i < range.end; ++i) {
        if (std::isfinite(scale)) {
          momentum[i] =
              kBeta * momentum[i] + (1 - kBeta) * (gradients[i] * scale);
          const float sign = (momentum[i] > 0) - (momentum[i] < 0);
          master[i] -= lr * sign;
          if (arrays.not_finite != nullptr && !std::isfinite(momentum[i])) {
            *arrays.not_finite = 1;
          }
        }
        payload[i] = master[i];
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr float kBeta = 0.9f;
};

struct Block {
  std::string name;
  nn::LayerNorm attention_norm{name + ".attention_norm", kWidth};
  nn::Linear q{name + ".q", kWidth, kWidth}, k{name + ".k", kWidth, kWidth},
      v{name + ".v", kWidth, kWidth}, out{name + ".out", kWidth, kWidth};
  nn::LayerNorm norm{name + ".norm", kWidth};
  nn::Linear up{name + ".up", kWidth, 4 * kWidth};
  nn::Linear down{name + ".down", 4 * kWidth, kWidth};

  absl::StatusOr<Tensor> operator()(Engine& e, const Tensor& x) const {
    CASTOR_ASSIGN_OR_RETURN(const Tensor normal, attention_norm(e, x));
    CASTOR_ASSIGN_OR_RETURN(const Tensor queries, q(e, normal));
    CASTOR_ASSIGN_OR_RETURN(const Tensor keys, k(e, normal));
    CASTOR_ASSIGN_OR_RETURN(const Tensor values, v(e, normal));
    CASTOR_ASSIGN_OR_RETURN(Tensor y,
                            ops::Attention(e, queries, keys, values,
                                           {.heads = kHeads, .causal = false},
                                           name + ".attention"));
    CASTOR_ASSIGN_OR_RETURN(y, out(e, y));
    CASTOR_ASSIGN_OR_RETURN(
        const Tensor middle,
        ops::Dropout(e, y, x, /*p=*/0, name + ".attention_residual"));
    CASTOR_ASSIGN_OR_RETURN(y, norm(e, middle));
    CASTOR_ASSIGN_OR_RETURN(y, up(e, y));
    CASTOR_ASSIGN_OR_RETURN(y, SquaredRelu(e, y, name + ".squared_relu"));
    CASTOR_ASSIGN_OR_RETURN(y, down(e, y));
    return ops::Dropout(e, y, middle, /*p=*/0, name + ".residual");
  }
};

struct Classifier final : Model {
  absl::StatusOr<Tensor> Loss(Engine& e, const Tensor& tokens,
                              const Tensor& targets) override {
    CASTOR_ASSIGN_OR_RETURN(Tensor x, numbers(e, tokens));
    CASTOR_ASSIGN_OR_RETURN(x, positions(e, std::move(x)));
    for (const Block& block : blocks) {
      CASTOR_ASSIGN_OR_RETURN(x, block(e, x));
    }
    CASTOR_ASSIGN_OR_RETURN(x, norm(e, x));
    return ops::HeadLoss(e, x, classes.weight(), targets);
  }
  nn::Embedding numbers{"numbers", kNumbers, kWidth};
  nn::PositionEmbedding positions{"positions", kLength, kWidth};
  std::vector<Block> blocks{Block{"block.0"}, Block{"block.1"}};
  nn::LayerNorm norm{"norm", kWidth};
  nn::Embedding classes{"classes", /*even, odd*/ 2, kWidth};
};

// The samples from number `first` on, each a function of its number.
MicroBatch Samples(int64_t first, int64_t count) {
  MicroBatch batch;
  for (int64_t sample = first; sample < first + count; ++sample) {
    uint64_t bits = static_cast<uint64_t>(sample) + 1;
    for (int64_t t = 0; t < kLength; ++t) {
      bits = bits * 6364136223846793005u + 1442695040888963407u;
      batch.tokens.push_back(static_cast<int32_t>((bits >> 33) % kNumbers));
      batch.targets.push_back(kNoTarget);
    }
    batch.targets[batch.targets.size() - kLength] = batch.tokens.back() % 2;
  }
  return batch;
}

absl::Status Train(const std::string& folder, int64_t steps,
                   const std::string& trace_path) {
  CASTOR_ASSIGN_OR_RETURN(const LaunchEnv launch,
                          LaunchOfClient(CurrentEnvironment()));
  CASTOR_ASSIGN_OR_RETURN(const auto group, JoinLaunchedRanks(launch));
  const bool speaks = launch.rank == 0;
  Engine engine(DType::kFloat32, /*seed=*/1);
  const ZeroInit scope(engine);
  Classifier model;
  TrainerOptions options;
  options.shape = {
      .batch = 8, .length = kLength, .micro_batches = kMicroBatches};
  options.eval_batch = 16;
  options.optimizer.rule = std::make_shared<Signum>();
  options.learning_rate = [](int64_t) { return 5e-4; };
  options.memory.device_bytes = 3 << 19;  // 1.5 MiB
  options.ranks = {.rank = launch.rank, .world_size = launch.world_size};
  if (launch.world_size > 1) {
    options.ranks.join = [&group](Device* device) {
      return group->MakeCommunicator(device);
    };
  }

  // The plan, before anything is allocated.
  TrainerOptions ask = options;
  ask.admit_only = true;
  CASTOR_ASSIGN_OR_RETURN(auto asked, Trainer::Create(&engine, &model, ask));
  if (speaks) {
    std::printf(
        "fits, from %s on\n",
        FormatBytes(asked->admission().smallest_device_budget_bytes).c_str());
  }
  asked.reset();  // an engine has one trainer at a time

  CASTOR_ASSIGN_OR_RETURN(const auto trainer,
                          Trainer::Create(&engine, &model, options));
  TrainerCheckpoints checkpoints(folder, trainer.get());
  InitialValues values(engine.seed());
  CASTOR_ASSIGN_OR_RETURN(const auto begun, checkpoints.Begin(values));
  for (const std::string& note : begun.notes) std::puts(note.c_str());
  if (speaks) {
    std::printf("from step %lld\n", static_cast<long long>(trainer->step()));
  }
  std::unique_ptr<RunTrace> trace;
  if (!trace_path.empty()) {
    CASTOR_ASSIGN_OR_RETURN(
        trace,
        RunTrace::Create(trace_path, {.title = "own_parts", .device = "host"},
                         {.first = 1, .last = 5}, trainer.get()));
  }
  while (trainer->step() < steps) {
    // Ranks take the step's micro batches by turns; this is our next one.
    int64_t index = trainer->step() * kMicroBatches + launch.rank;
    CASTOR_ASSIGN_OR_RETURN(
        const double loss, trainer->Step([&]() -> absl::StatusOr<MicroBatch> {
          const int64_t mine = std::exchange(index, index + launch.world_size);
          return Samples(mine * options.shape.batch, options.shape.batch);
        }));
    if (trainer->step() % 50 == 0) {
      if (speaks) {
        std::printf("step %lld  loss %.4f\n",
                    static_cast<long long>(trainer->step()), loss);
      }
      CASTOR_RETURN_IF_ERROR(checkpoints.Save());
    }
  }
  CASTOR_RETURN_IF_ERROR(checkpoints.Save());
  if (trace != nullptr) {
    for (const StepReport& report : trainer->TakeReports()) {
      trace->OnResult(report);
    }
    trace->Finish("finished", "");
    CASTOR_RETURN_IF_ERROR(trace->status());
  }
  // Samples that no step has seen.
  int64_t unseen = (int64_t{1} << 40) + 16 * launch.rank;
  CASTOR_ASSIGN_OR_RETURN(
      const Trainer::LossSum sum,
      trainer->EvaluateSum(/*batches=*/8, [&]() -> absl::StatusOr<MicroBatch> {
        return Samples(std::exchange(unseen, unseen + 16 * launch.world_size),
                       16);
      }));
  CASTOR_ASSIGN_OR_RETURN(
      const std::string sha256,
      ParametersSha256(trainer->parameters(), trainer->store(),
                       trainer->communicator()));
  if (speaks) {
    std::printf(
        "accuracy %.3f\nparameters' sha256 %s\n",
        static_cast<double>(sum.correct) / static_cast<double>(sum.labels),
        sha256.c_str());
  }
  return trainer->Drain();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4 || std::atoll(argv[2]) < 1) {
    std::fprintf(stderr, "usage: own_parts FOLDER STEPS [TRACE_FILE]\n");
    return 2;
  }
  const absl::Status status =
      Train(argv[1], std::atoll(argv[2]), argc > 3 ? argv[3] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
