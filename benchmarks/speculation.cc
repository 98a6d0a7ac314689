// What updates gain that run on the host before the gradients' norm is known,
// where the host's updates take long beside a short backward: a step with them
// over one without, by turns, where nothing is clipped and where all steps are.
//
//   bazel run -c opt //benchmarks:speculation -- [--bf16] [--layers N]
//       [--width N] [--vocabulary N] [--batch N] [--length N] [--rounds N]
//       [--steps N] [--bus BYTES_PER_S]
//
// The device and the host have a thread each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "benchmarks/synthetic.h"
#include "memory/plan/policy/policies.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

// Warm-up, the first steps on a plan, and those in which it settles.
constexpr int64_t kSettle = 10;

struct Flags {
  bool bf16 = false;
  double bus_bytes_per_s = 0;
  int64_t rounds = 9;
  int64_t steps = 12;  // measured
  SyntheticRun run = {6, 512, 256, 1, 16};
};

struct Run {
  double step_seconds = 0;
  double predicted_seconds = 0;
  SpeculationCounts counts;
  int64_t chunks = 0;
  int64_t host_bytes = 0;
};

Run Train(const Flags& flags, double clipping, bool speculates) {
  Engine engine(flags.bf16 ? DType::kBFloat16 : DType::kFloat32, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(flags.run.Model());
  TrainerOptions options;
  options.shape = flags.run.Shape();
  options.bus_bytes_per_s = flags.bus_bytes_per_s;
  options.optimizer.gradient_clipping = clipping;
  options.memory.policy = FindPolicy("cpu");
  options.speculation.on = speculates;
  auto trainer = Trainer::Create(&engine, &model, std::move(options));
  CASTOR_CHECK(trainer.ok());
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());
  int64_t index = 0;
  for (int64_t i = 0; i < kSettle + flags.steps; ++i) {
    const auto loss = (*trainer)->Step([&]() -> absl::StatusOr<MicroBatch> {
      return flags.run.Batch(index++);
    });
    CASTOR_CHECK(loss.ok());
  }
  CASTOR_CHECK((*trainer)->Drain().ok());
  std::vector<double> seconds;
  for (const StepReport& step : (*trainer)->TakeReports()) {
    if (step.step > kSettle) seconds.push_back(step.seconds);
  }
  return {
      .step_seconds = Median(seconds),
      .predicted_seconds =
          1e-9 * static_cast<double>((*trainer)->training_forecast().step_ns),
      .counts = (*trainer)->speculation(),
      .chunks = (*trainer)->layout().num_chunks(),
      .host_bytes = (*trainer)->host_stats().peak_bytes};
}

void Measure(const Flags& flags) {
  const struct {
    const char* name;
    double clipping;
  } kKinds[] = {{"nothing clipped", 1e9}, {"always clipped", 1e-9}};
  struct Results {
    std::vector<double> without, with, ratio, predicted, predicted_with;
    Run last, last_with;
  };
  std::vector<Results> results(std::size(kKinds));
  for (int64_t round = 0; round < flags.rounds; ++round) {
    for (size_t i = 0; i < results.size(); ++i) {
      Results& r = results[i];
      // Each order as often as the other: the machine's speed drifts.
      for (const bool with : {round % 2 == 0, round % 2 != 0}) {
        const Run run = Train(flags, kKinds[i].clipping, with);
        (with ? r.with : r.without).push_back(run.step_seconds);
        (with ? r.predicted_with : r.predicted)
            .push_back(run.predicted_seconds);
        (with ? r.last_with : r.last) = run;
      }
      r.ratio.push_back(r.with.back() / r.without.back());
    }
  }
  std::printf(
      "GPT-2 %ld x %ld, V %ld, %ld x %ld tokens, %s, policy cpu, bus %g GB/s "
      "(0: unlimited), a thread on either side, %ld chunks; medians of %ld "
      "rounds\n",
      static_cast<long>(flags.run.layers), static_cast<long>(flags.run.width),
      static_cast<long>(flags.run.vocabulary),
      static_cast<long>(flags.run.batch), static_cast<long>(flags.run.length),
      flags.bf16 ? "bf16" : "fp32", flags.bus_bytes_per_s * 1e-9,
      static_cast<long>(results[0].last.chunks),
      static_cast<long>(flags.rounds));
  std::printf("%-16s %10s %10s %8s %17s %16s %16s %10s %10s\n", "",
              "without ms", "with ms", "ratio", "(min to max)",
              "foreseen without", "foreseen with", "committed", "repeated");
  for (size_t i = 0; i < results.size(); ++i) {
    const Results& r = results[i];
    std::printf(
        "%-16s %10.1f %10.1f %8.3f  (%6.3f, %6.3f) %16.1f %16.1f %10ld %10ld\n",
        kKinds[i].name, 1e3 * Median(r.without), 1e3 * Median(r.with),
        Median(r.ratio), *std::min_element(r.ratio.begin(), r.ratio.end()),
        *std::max_element(r.ratio.begin(), r.ratio.end()),
        1e3 * Median(r.predicted), 1e3 * Median(r.predicted_with),
        static_cast<long>(r.last_with.counts.committed),
        static_cast<long>(r.last_with.counts.repeated));
  }
  std::printf(
      "committed, repeated: updates of the last run with them, in %ld steps; "
      "its host peak %.1f MB, without %.1f MB\n",
      static_cast<long>(kSettle + flags.steps),
      1e-6 * static_cast<double>(results[0].last_with.host_bytes),
      1e-6 * static_cast<double>(results[0].last.host_bytes));
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  castor::Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--bf16") == 0) {
      flags.bf16 = true;
    } else if (std::strcmp(argv[i], "--bus") == 0 && i + 1 < argc &&
               std::atof(argv[i + 1]) > 0) {
      flags.bus_bytes_per_s = std::atof(argv[++i]);
    } else if (!flags.run.TakeArgument(argc, argv, &i) &&
               !castor::TakeNumber("--rounds", argc, argv, &i, &flags.rounds) &&
               !castor::TakeNumber("--steps", argc, argv, &i, &flags.steps)) {
      std::fprintf(stderr, "speculation: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  castor::Measure(flags);
}
