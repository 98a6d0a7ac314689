// Step time over the device budget with all activations kept ("none"), with
// all made again ("block") and with the planner's choice ("auto"), in turns.
//
//   bazel run -c opt //benchmarks:recomputation -- [--bf16] [--layers N]
//       [--width N] [--vocabulary N] [--batch N] [--length N] [--rounds N]
//       [--threads N] [--micro-batches N] [--foreseen-only]
//
// The bus is set so that the transfers of a step at the smallest budget take,
// in the busier direction, half of the unlimited run's step. Goals: "auto" is
// never slower than the better of the other two, runs wherever "block" does,
// and is faster than both where both wait. Forecasts are those of the plan in
// force at the end. With --foreseen-only nothing is measured: the plans of the
// dry pass, from estimated durations.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "benchmarks/synthetic.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

constexpr int kWays = 3;  // of ActivationCheckpointing
constexpr int kSteps = 6;
// Before the measured ones: warm-up, plans, until durations have settled.
constexpr int kSettle = 7;

struct Flags {
  bool bf16 = false;
  bool foreseen_only = false;
  SyntheticRun run = {8, 256, 1024, 8, 256};
  int64_t rounds = 3, threads = AvailableProcessors(), micro_batches = 1;
};

struct Run {
  double step_seconds = 0;  // median
  Forecast forecast;
  int64_t moved_bytes = 0;  // in the busier direction
  AdmissionReport admission;
};

// Absent: refused.
std::optional<Run> Train(const Flags& flags, int64_t budget,
                         double bus_bytes_per_s, int way) {
  Engine engine(flags.bf16 ? DType::kBFloat16 : DType::kFloat32, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(flags.run.Model());
  TrainerOptions options;
  options.shape = flags.run.Shape();
  options.shape.micro_batches = flags.micro_batches;
  options.threads = static_cast<int>(flags.threads);
  options.bus_bytes_per_s = bus_bytes_per_s;
  options.optimizer.gradient_clipping = 1;
  options.memory.device_bytes = budget;
  options.activation_checkpointing = static_cast<ActivationCheckpointing>(way);
  options.admit_only = flags.foreseen_only;
  std::optional<RefusedRun> refused;
  auto trainer = Trainer::Create(&engine, &model, std::move(options), &refused);
  if (refused.has_value()) return std::nullopt;
  if (!trainer.ok()) {
    std::fprintf(stderr, "%s\n", trainer.status().ToString().c_str());
    std::exit(1);
  }
  Run run;
  run.admission = (*trainer)->admission();
  run.forecast = run.admission.forecast;
  run.step_seconds = static_cast<double>(run.forecast.step_ns) * 1e-9;
  run.moved_bytes = std::max(run.admission.h2d_bytes_per_step,
                             run.admission.d2h_bytes_per_step);
  if (flags.foreseen_only) return run;
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());
  int64_t index = 0;
  for (int i = 0; i < kSettle + kSteps; ++i) {
    const auto loss = (*trainer)->Step([&]() -> absl::StatusOr<MicroBatch> {
      return flags.run.Batch(index++);
    });
    if (!loss.ok()) {
      std::fprintf(stderr, "%s\n", loss.status().ToString().c_str());
      std::exit(1);
    }
  }
  CASTOR_CHECK((*trainer)->Drain().ok());
  std::vector<double> seconds;
  for (const StepReport& step : (*trainer)->TakeReports()) {
    if (step.step <= kSettle) continue;
    seconds.push_back(step.seconds);
    run.moved_bytes = std::max(step.h2d_bytes, step.d2h_bytes);
  }
  run.step_seconds = Median(seconds);
  run.forecast = (*trainer)->training_forecast();
  return run;
}

// "foreseen ms, measured ms" of the rounds' medians, or that it is refused.
void PrintWay(const Flags& flags, const std::vector<Run>& rounds) {
  if (rounds.empty()) {
    std::printf(" | %20s", "does not fit");
    return;
  }
  std::vector<double> foreseen, measured;
  for (const Run& run : rounds) {
    foreseen.push_back(static_cast<double>(run.forecast.step_ns) * 1e-6);
    measured.push_back(1e3 * run.step_seconds);
  }
  if (flags.foreseen_only) {
    std::printf(" | %20.1f", Median(foreseen));
  } else {
    std::printf(" | %9.1f %10.1f", Median(foreseen), Median(measured));
  }
}

void Measure(const Flags& flags) {
  constexpr int kNone = static_cast<int>(ActivationCheckpointing::kNone);
  constexpr int kBlock = static_cast<int>(ActivationCheckpointing::kBlock);
  const Run unlimited = *Train(flags, kUnlimitedBytes, 0, kNone);
  const int64_t all = unlimited.admission.unmanaged_device_bytes;
  const int64_t least =
      Train(flags, all, 0, kBlock)->admission.smallest_device_budget_bytes;
  const Run smallest = *Train(flags, least, 0, kBlock);
  const double bus = static_cast<double>(smallest.moved_bytes) /
                     (0.5 * unlimited.step_seconds);
  std::printf(
      "GPT-2 %ld x %ld, V %ld, %ld x %ld x %ld tokens, %s, %ld threads\n"
      "everything kept and on the device: %.1f ms; smallest budgets: none %s, "
      "block %s; everything %s; bus %.2f GB/s each way\n",
      static_cast<long>(flags.run.layers), static_cast<long>(flags.run.width),
      static_cast<long>(flags.run.vocabulary),
      static_cast<long>(flags.micro_batches),
      static_cast<long>(flags.run.batch), static_cast<long>(flags.run.length),
      flags.bf16 ? "bf16" : "fp32", static_cast<long>(flags.threads),
      1e3 * unlimited.step_seconds,
      FormatBytes(unlimited.admission.smallest_device_budget_bytes).c_str(),
      FormatBytes(least).c_str(), FormatBytes(all).c_str(), bus * 1e-9);
  std::printf("%-6s %10s", "", "budget");
  for (const char* way : {"none", "block", "auto"}) {
    std::printf(" | %9s %10s", way,
                flags.foreseen_only ? "foreseen" : "ms: measured");
  }
  std::printf(" | kept, auto to the better: foreseen%s\n",
              flags.foreseen_only ? "" : ", measured (min to max)");
  for (const double share : {0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0}) {
    const int64_t budget =
        least + static_cast<int64_t>(share * static_cast<double>(all - least));
    std::vector<Run> runs[kWays];
    std::vector<double> foreseen, measured;
    for (int64_t round = 0; round < (flags.foreseen_only ? 1 : flags.rounds);
         ++round) {
      double best_foreseen = 0, best_measured = 0;
      for (int way = 0; way < kWays; ++way) {
        const std::optional<Run> run = Train(flags, budget, bus, way);
        if (!run.has_value()) continue;
        const double step_ns = static_cast<double>(run->forecast.step_ns);
        if (way == kWays - 1) {
          foreseen.push_back(step_ns / best_foreseen);
          measured.push_back(run->step_seconds / best_measured);
        } else if (best_foreseen == 0) {
          best_foreseen = step_ns;
          best_measured = run->step_seconds;
        } else {
          best_foreseen = std::min(best_foreseen, step_ns);
          best_measured = std::min(best_measured, run->step_seconds);
        }
        runs[way].push_back(*run);
      }
    }
    std::printf("+%3.0f %%  %10s", 100 * share, FormatBytes(budget).c_str());
    for (const std::vector<Run>& way : runs) PrintWay(flags, way);
    if (!runs[kWays - 1].empty()) {
      const BlockCount kept = runs[kWays - 1].back().forecast.blocks;
      std::printf(" | %ld of %ld, %.3f", static_cast<long>(kept.kept),
                  static_cast<long>(kept.blocks), Median(foreseen));
      if (!flags.foreseen_only) {
        std::printf(", %.3f (%.3f to %.3f)", Median(measured),
                    *std::min_element(measured.begin(), measured.end()),
                    *std::max_element(measured.begin(), measured.end()));
      }
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  castor::Flags flags;
  const auto take = [&](int* at) {
    return castor::TakeFlag("--bf16", argv, at, &flags.bf16) ||
           castor::TakeFlag("--foreseen-only", argv, at,
                            &flags.foreseen_only) ||
           flags.run.TakeArgument(argc, argv, at) ||
           castor::TakeNumber("--rounds", argc, argv, at, &flags.rounds) ||
           castor::TakeNumber("--micro-batches", argc, argv, at,
                              &flags.micro_batches) ||
           castor::TakeNumber("--threads", argc, argv, at, &flags.threads);
  };
  if (!castor::TakeArguments("recomputation", argc, argv, take)) return 2;
  castor::Measure(flags);
}
