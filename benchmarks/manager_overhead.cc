// Measures what the memory manager costs when everything is resident: the same
// training steps through the device backend (policy cuda, no budget) and
// through plain allocations, in turns. Goal: at most 2 % of the step.
//
//   bazel run -c opt //benchmarks:manager_overhead -- [ROUNDS [THREADS]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "benchmarks/direct_backend.h"
#include "benchmarks/seconds.h"
#include "benchmarks/synthetic.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

struct Size {
  const char* name;
  SyntheticRun run;
};
constexpr Size kSizes[] = {
    {"6 x 384, 4 x 128 tokens, bytes", {6, 384, 256, 4, 128}},
    {"12 x 768 (GPT-2 124M), 4 x 64 tokens", {12, 768, 50257, 4, 64}},
};
constexpr int kStepsPerRound = 5;

// One model with its two ways of training.
void Compare(const Size& size, int rounds, int threads) {
  const StepShape shape = size.run.Shape();
  Engine managed_engine(DType::kFloat32, 1);
  const ZeroInit managed_scope(managed_engine);
  models::Gpt2 managed_model(size.run.Model());
  TrainerOptions options;
  options.shape = shape;
  options.threads = threads;
  options.optimizer.gradient_clipping = 1;
  options.memory.policy = FindPolicy("cuda");
  auto trainer =
      Trainer::Create(&managed_engine, &managed_model, std::move(options));
  CASTOR_CHECK(trainer.ok());
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());

  Engine direct_engine(DType::kFloat32, 1);
  const ZeroInit direct_scope(direct_engine);
  models::Gpt2 direct_model(size.run.Model());
  // The same order of parameters in the engine, so the layout serves both.
  direct_engine.SetLayout(&(*trainer)->layout());
  DirectBackend direct(&(*trainer)->layout(), &direct_engine.parameters(),
                       threads);
  CASTOR_CHECK(direct.Fill(values).ok());
  direct_engine.SetBackend(&direct);
  const int64_t labels = CountLabels(size.run.Batch(0).targets);
  direct_engine.SetLossGradient(/*loss_scale=*/1, {labels});

  std::vector<double> ratios, managed_s, direct_s;
  int64_t step = 0;
  for (int round = -1; round < rounds; ++round) {  // round -1 warms up
    const int64_t first = step;
    double start = Seconds();
    float direct_loss = 0;  // summed over the labels
    for (int i = 0; i < kStepsPerRound; ++i) {
      direct.BeginStep();
      auto loss = RunMicroBatch(direct_engine, direct_model, shape, 0,
                                first + i, size.run.Batch(first + i));
      CASTOR_CHECK(loss.ok());
      direct_loss = direct.ReadFloat((*loss)[0].storage_id());
      CASTOR_CHECK(direct_engine.UpdateParameters().ok());
    }
    const double without = (Seconds() - start) / kStepsPerRound;
    start = Seconds();
    double managed_loss = 0;
    for (int i = 0; i < kStepsPerRound; ++i) {
      auto loss = (*trainer)->Step(
          [&]() -> absl::StatusOr<MicroBatch> { return size.run.Batch(step); });
      CASTOR_CHECK(loss.ok());
      managed_loss = *loss;
      ++step;
    }
    CASTOR_CHECK((*trainer)->Drain().ok());
    const double with = (Seconds() - start) / kStepsPerRound;
    // The same maths, to the bit.
    CASTOR_CHECK(managed_loss == static_cast<double>(direct_loss) /
                                     static_cast<double>(labels));
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
