// Measures what a step costs the thread that issues it: its processor time per
// operator, with everything resident and with chunks on the move. Goal: at most
// 5 us. (The `push` of device_bench and gpu_bench is what the device adds.)
//
//   bazel run -c opt //benchmarks:issue_cost -- [STEPS]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "base/units.h"
#include "benchmarks/synthetic.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

constexpr int kSettle = 4;  // before: warm-up, change of plan, two more
// Little to compute, as many operators as with much.
constexpr SyntheticRun kRun = {
    .layers = 12, .width = 128, .vocabulary = 256, .batch = 1, .length = 8};

double ThreadSeconds() {
  timespec now = {};
  CASTOR_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
}

// Prints a line. Returns the smallest budget that would do.
int64_t Measure(const PlacementPolicy* policy, int64_t budget, int steps) {
  Engine engine(DType::kBFloat16, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(kRun.Model());
  TrainerOptions options;
  options.shape = kRun.Shape();
  options.optimizer.gradient_clipping = 1;
  options.memory.policy = policy;
  options.memory.device_bytes = budget;
  auto trainer = Trainer::Create(&engine, &model, std::move(options));
  CASTOR_CHECK(trainer.ok());
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());
  std::vector<double> per_op;
  for (int i = -kSettle; i < steps; ++i) {
    const MicroBatch batch = kRun.Batch(i + kSettle);
    const double start = ThreadSeconds();
    CASTOR_CHECK(
        (*trainer)
            ->Step([&]() -> absl::StatusOr<MicroBatch> { return batch; })
            .ok());
    const double seconds = ThreadSeconds() - start;
    if (i >= 0) {
      per_op.push_back(seconds / static_cast<double>(
                                     (*trainer)->training_trace()->ops.size()));
    }
  }
  CASTOR_CHECK((*trainer)->Drain().ok());
  int64_t moves = 0;
  for (const auto& actions : (*trainer)->training_plan()->actions) {
    moves += static_cast<int64_t>(actions.size());
  }
  const AdmissionReport& admission = (*trainer)->admission();
  std::printf(
      "policy %-4s  device %-9s  operators %lld  moves %lld  us_per_operator "
      "%.2f (%.2f to %.2f, %d steps)\n",
      std::string(policy->name).c_str(),
      FormatBytes(admission.device_arena_bytes).c_str(),
      static_cast<long long>((*trainer)->training_trace()->ops.size()),
      static_cast<long long>(moves), 1e6 * Median(per_op),
      1e6 * *std::min_element(per_op.begin(), per_op.end()),
      1e6 * *std::max_element(per_op.begin(), per_op.end()), steps);
  return admission.smallest_device_budget_bytes;
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  using castor::FindPolicy;
  const int steps = argc > 1 ? std::atoi(argv[1]) : 50;
  castor::Measure(FindPolicy("cuda"), castor::kUnlimitedBytes, steps);
  const int64_t least =
      castor::Measure(FindPolicy("auto"), castor::kUnlimitedBytes, steps);
  castor::Measure(FindPolicy("auto"), 2 * least, steps);
  castor::Measure(FindPolicy("auto"), least, steps);
  castor::Measure(FindPolicy("cpu"), least, steps);
}
