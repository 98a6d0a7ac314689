// Step time and bytes moved over the device budget, against the run without a
// budget, in turns.
//
//   bazel run -c opt //benchmarks:budget_curve -- [--bf16] [--layers N]
//       [--width N] [--vocabulary N] [--batch N] [--length N] [--rounds N]
//       [--threads N] [--micro-batches N] [--no-clipping] [--dropout SHARE]
//
// The bus is set so that the transfers of a step at the smallest budget take,
// in the busier direction, half of the unlimited run's step. Goals: at most 1.6
// times the unlimited step at the smallest budget, at most 1.15 times from the
// smallest budget plus the two largest chunks upwards, no cliff between; bytes
// at most 1.05 times the lower bound; from the smallest budget plus the two
// largest chunks upwards at most 1.05 times the floor. The floor is what the
// shared cores impose: the emulated bus is memcpy on the cores that compute,
// and no step is shorter than the unlimited one, or than the processor time
// that it spends itself over the number of threads.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "benchmarks/synthetic.h"
#include "memory/plan/bounds/lower_bound.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

struct Flags {
  bool bf16 = false;
  bool no_clipping = false;
  SyntheticRun run = {8, 512, 4096, 4, 128};
  int64_t rounds = 5, threads = AvailableProcessors(), micro_batches = 1;
};

constexpr int kSteps = 6;  // measured, of each run
// Before them: warm-up, plans, until durations have settled.
constexpr int kSettle = 7;

struct Run {
  double step_seconds = 0;  // median
  double stall_seconds = 0;
  double processor_seconds = 0;  // of all threads, a step's mean
  int64_t h2d_bytes = 0, d2h_bytes = 0;
  int64_t device_sides = 0;  // chunks whose optimizer states are on the device
  // With one micro batch that of a run whose updates are the host's.
  TrafficBound bound;
  int64_t least_fetched = 0;  // by any plan with this one's sides
  AdmissionReport admission;
  int64_t largest_chunk = 0;
};

double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

Run Train(const Flags& flags, int64_t budget, double bus_bytes_per_s,
          const PlacementPolicy* policy) {
  Engine engine(flags.bf16 ? DType::kBFloat16 : DType::kFloat32, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(flags.run.Model());
  TrainerOptions options;
  options.shape = flags.run.Shape();
  options.shape.micro_batches = flags.micro_batches;
  options.threads = static_cast<int>(flags.threads);
  options.bus_bytes_per_s = bus_bytes_per_s;
  options.optimizer.gradient_clipping = flags.no_clipping ? 0 : 1;
  options.memory.policy = policy;
  options.memory.device_bytes = budget;
  auto trainer = Trainer::Create(&engine, &model, std::move(options));
  if (!trainer.ok()) {
    std::fprintf(stderr, "%s\n", trainer.status().ToString().c_str());
    std::exit(1);
  }
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());
  int64_t index = 0;
  double processor_seconds = 0;
  for (int i = 0; i < kSettle + kSteps; ++i) {
    if (i == kSettle) {
      CASTOR_CHECK((*trainer)->Drain().ok());
      processor_seconds = ProcessorSeconds();
    }
    auto loss = (*trainer)->Step([&]() -> absl::StatusOr<MicroBatch> {
      return flags.run.Batch(index++);
    });
    if (!loss.ok()) {
      std::fprintf(stderr, "%s\n", loss.status().ToString().c_str());
      std::exit(1);
    }
  }
  CASTOR_CHECK((*trainer)->Drain().ok());
  std::vector<double> seconds, stalls;
  Run run;
  run.processor_seconds = (ProcessorSeconds() - processor_seconds) / kSteps;
  for (const StepReport& step : (*trainer)->TakeReports()) {
    if (step.step <= kSettle) continue;
    seconds.push_back(step.seconds);
    stalls.push_back(step.stall_seconds);
    run.h2d_bytes = step.h2d_bytes;
    run.d2h_bytes = step.d2h_bytes;
  }
  run.step_seconds = Median(seconds);
  run.stall_seconds = Median(stalls);
  run.admission = (*trainer)->admission();
  const PlanRequest request = (*trainer)->training_request();
  const Plan& plan = *(*trainer)->training_plan();
  run.bound = flags.micro_batches == 1
                  ? OneMicroBatchBound(request)
                  : AccumulationBound(request, flags.bf16 ? 2 : 1);
  run.least_fetched = LeastFetchedBytes(request, plan.side);
  run.device_sides =
      std::count(plan.side.begin(), plan.side.end(), Side::kDevice);
  std::vector<int64_t> chunks;
  for (int64_t i = 0; i < (*trainer)->layout().num_chunks(); ++i) {
    chunks.push_back((*trainer)->layout().payload_bytes(ChunkId(i)));
  }
  run.largest_chunk = *std::max_element(chunks.begin(), chunks.end());
  return run;
}

struct Row {
  std::string name;
  int64_t budget;
  const PlacementPolicy* policy = FindPolicy("auto");
  std::vector<double> ratios, floors, seconds;
  Run last;
};

void Measure(const Flags& flags) {
  const Run unlimited = Train(flags, kUnlimitedBytes, 0, FindPolicy("auto"));
  const int64_t least = Train(flags, unlimited.admission.device_arena_bytes, 0,
                              FindPolicy("auto"))
                            .admission.smallest_device_budget_bytes;
  const Run smallest = Train(flags, least, 0, FindPolicy("auto"));
  const double busier =
      static_cast<double>(std::max(smallest.h2d_bytes, smallest.d2h_bytes));
  const double bus = busier / (0.5 * unlimited.step_seconds);
  const int64_t all = unlimited.admission.unmanaged_device_bytes;
  std::printf(
      "GPT-2 %ld x %ld, V %ld, %ld x %ld x %ld tokens, %s, clipping %s, "
      "dropout %g, %ld threads; %ld parameters in %ld chunks\nunlimited step "
      "%.1f ms; smallest budget %s, "
      "everything %s; bus %.2f GB/s each way\n",
      static_cast<long>(flags.run.layers), static_cast<long>(flags.run.width),
      static_cast<long>(flags.run.vocabulary),
      static_cast<long>(flags.micro_batches),
      static_cast<long>(flags.run.batch), static_cast<long>(flags.run.length),
      flags.bf16 ? "bf16" : "fp32", flags.no_clipping ? "off" : "on",
      flags.run.dropout, static_cast<long>(flags.threads),
      static_cast<long>(unlimited.admission.parameter_elements),
      static_cast<long>(unlimited.admission.num_chunks),
      1e3 * unlimited.step_seconds, FormatBytes(least).c_str(),
      FormatBytes(all).c_str(), bus * 1e-9);
  std::vector<Row> rows;
  rows.push_back(
      {"cpu policy, smallest", least, FindPolicy("cpu"), {}, {}, {}, {}});
  rows.push_back({"smallest", least, FindPolicy("auto"), {}, {}, {}, {}});
  rows.push_back({"+ 2 largest chunks",
                  least + 2 * unlimited.largest_chunk,
                  FindPolicy("auto"),
                  {},
                  {},
                  {},
                  {}});
  for (const double share : {0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0}) {
    rows.push_back(
        {"smallest + " + std::to_string(static_cast<int>(share * 100)) + " %",
         least + static_cast<int64_t>(share * static_cast<double>(all - least)),
         FindPolicy("auto"),
         {},
         {},
         {},
         {}});
  }
  for (int64_t round = 0; round < flags.rounds; ++round) {
    for (Row& row : rows) {
      // The unlimited run beside each: the machine's speed drifts.
      const Run base = Train(flags, kUnlimitedBytes, bus, FindPolicy("auto"));
      row.last = Train(flags, row.budget, bus, row.policy);
      row.seconds.push_back(row.last.step_seconds);
      row.ratios.push_back(row.last.step_seconds / base.step_seconds);
      row.floors.push_back(std::max(
          1.0, row.last.processor_seconds / static_cast<double>(flags.threads) /
                   base.step_seconds));
    }
  }
  std::printf("%-22s %10s %9s %7s %15s %7s %7s %10s %10s %8s %8s %6s\n",
              "budget", "bytes", "step ms", "ratio", "(min to max)", "floor",
              "stall", "h2d", "d2h", "h2d/bnd", "h2d/lst", "dev.s.");
  for (const Row& row : rows) {
    const Run& run = row.last;
    std::printf(
        "%-22s %10s %9.1f %7.3f (%6.3f, %6.3f) %7.3f %6.1f%% %10s %10s %8.3f "
        "%8.3f "
        "%6ld\n",
        row.name.c_str(), FormatBytes(row.budget).c_str(),
        1e3 * Median(row.seconds), Median(row.ratios),
        *std::min_element(row.ratios.begin(), row.ratios.end()),
        *std::max_element(row.ratios.begin(), row.ratios.end()),
        Median(row.floors), 100 * run.stall_seconds / run.step_seconds,
        FormatBytes(run.h2d_bytes).c_str(), FormatBytes(run.d2h_bytes).c_str(),
        static_cast<double>(run.h2d_bytes) /
            static_cast<double>(std::max<int64_t>(1, run.bound.h2d_bytes)),
        static_cast<double>(run.h2d_bytes) /
            static_cast<double>(std::max<int64_t>(1, run.least_fetched)),
        static_cast<long>(run.device_sides));
  }
  std::printf(
      "h2d/bnd: over P + max(0, P - K) for updates on the host, with several "
      "micro batches over AccumulationBound's; h2d/lst: over "
      "the least that any plan with these sides fetches (of one micro batch); "
      "floor: the ratio that shared cores impose; dev.s.: chunks whose "
      "optimizer states the plan keeps on the device\n");
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  castor::Flags flags;
  const auto take = [&](int* at) {
    return castor::TakeFlag("--bf16", argv, at, &flags.bf16) ||
           flags.run.TakeArgument(argc, argv, at) ||
           castor::TakeFlag("--no-clipping", argv, at, &flags.no_clipping) ||
           castor::TakeNumber("--micro-batches", argc, argv, at,
                              &flags.micro_batches) ||
           castor::TakePositive("--dropout", argc, argv, at,
                                &flags.run.dropout) ||
           castor::TakeNumber("--rounds", argc, argv, at, &flags.rounds) ||
           castor::TakeNumber("--threads", argc, argv, at, &flags.threads);
  };
  if (!castor::TakeArguments("budget_curve", argc, argv, take)) return 2;
  castor::Measure(flags);
}
