// What the memory manager costs when everything is resident: the same training
// steps through the device backend (policy cuda, no budget) and through plain
// allocations, in turns. Goal: at most 2 % of the step.
//
//   bazel run -c opt //benchmarks:manager_overhead -- [ROUNDS [THREADS]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"
#include "benchmarks/direct_backend.h"
#include "models/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/trainer.h"

namespace castor {
namespace {

struct Size {
  const char* name;
  int64_t layers, heads, width, vocabulary, batch, length;
};
constexpr Size kSizes[] = {
    {"6 x 384, 4 x 128 tokens, bytes", 6, 6, 384, 256, 4, 128},
    {"12 x 768 (GPT-2 124M), 4 x 64 tokens", 12, 12, 768, 50257, 4, 64},
};
constexpr int kStepsPerRound = 5;

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

ModelConfig ConfigOf(const Size& size) {
  ModelConfig config;
  config.n_layer = size.layers;
  config.n_head = size.heads;
  config.n_embd = size.width;
  config.n_positions = size.length;
  config.vocab_size = size.vocabulary;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0;
  return config;
}

MicroBatch Batch(const Size& size, int64_t step) {
  MicroBatch batch;
  for (int64_t i = 0; i < size.batch * size.length; ++i) {
    batch.tokens.push_back(
        static_cast<int32_t>((i * 7919 + step * 104729) % size.vocabulary));
    batch.targets.push_back(
        static_cast<int32_t>((i * 6101 + step * 7561) % size.vocabulary));
  }
  return batch;
}

// One model with its two ways of training.
void Compare(const Size& size, int rounds, int threads) {
  const StepShape shape = {.batch = size.batch, .length = size.length};
  Engine managed_engine(DType::kFloat32, 1);
  const ZeroInit managed_scope(managed_engine);
  models::Gpt2 managed_model(ConfigOf(size));
  TrainerOptions options;
  options.shape = shape;
  options.threads = threads;
  options.optimizer.gradient_clipping = 1;
  options.memory.policy = PlacementPolicy::kCuda;
  auto trainer =
      Trainer::Create(&managed_engine, &managed_model, std::move(options));
  CASTOR_CHECK(trainer.ok());
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());

  Engine direct_engine(DType::kFloat32, 1);
  const ZeroInit direct_scope(direct_engine);
  models::Gpt2 direct_model(ConfigOf(size));
  // The same order of parameters in the engine, so the layout serves both.
  direct_engine.SetLayout(&(*trainer)->layout());
  DirectBackend direct(&(*trainer)->layout(), &direct_engine.parameters(),
                       threads);
  CASTOR_CHECK(direct.Fill(values).ok());
  direct_engine.SetBackend(&direct);

  std::vector<double> ratios, managed_s, direct_s;
  int64_t step = 0;
  for (int round = -1; round < rounds; ++round) {  // round -1 warms up
    const int64_t first = step;
    double start = Seconds();
    float direct_loss = 0;
    for (int i = 0; i < kStepsPerRound; ++i) {
      direct.BeginStep();
      auto loss = RunMicroBatch(direct_engine, direct_model, shape, 0,
                                first + i, Batch(size, first + i));
      CASTOR_CHECK(loss.ok());
      direct_loss = direct.ReadFloat(loss->storage_id());
      CASTOR_CHECK(direct_engine.UpdateParameters().ok());
    }
    const double without = (Seconds() - start) / kStepsPerRound;
    start = Seconds();
    double managed_loss = 0;
    for (int i = 0; i < kStepsPerRound; ++i) {
      auto loss = (*trainer)->Step(
          [&]() -> absl::StatusOr<MicroBatch> { return Batch(size, step); });
      CASTOR_CHECK(loss.ok());
      managed_loss = *loss;
      ++step;
    }
    CASTOR_CHECK((*trainer)->Drain().ok());
    const double with = (Seconds() - start) / kStepsPerRound;
    // The same maths, to the bit.
    CASTOR_CHECK(static_cast<float>(managed_loss) == direct_loss);
    if (round < 0) continue;
    managed_s.push_back(with);
    direct_s.push_back(without);
    ratios.push_back(with / without);
  }
  std::printf(
      "%-38s kernels alone %8.2f ms  managed %8.2f ms  ratio %.3f "
      "(%.3f to %.3f, %d rounds of %d steps)\n",
      size.name, 1e3 * Median(direct_s), 1e3 * Median(managed_s),
      Median(ratios), *std::min_element(ratios.begin(), ratios.end()),
      *std::max_element(ratios.begin(), ratios.end()), rounds, kStepsPerRound);
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
  for (const castor::Size& size : castor::kSizes) {
    castor::Compare(size, rounds, threads);
  }
}
