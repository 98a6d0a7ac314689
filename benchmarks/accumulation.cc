// Bytes that a step moves over the bus, over the number of micro batches whose
// gradients it adds up, against the least that any plan needs. They are counted
// from real copies, and are the same in every run.
//
//   bazel run -c opt //benchmarks:accumulation -- [--fp32] [--layers N]
//       [--width N] [--vocabulary N] [--batch N] [--length N] [--clip]
//       [--bus BYTES_PER_S] [--foreseen-only | --programs FOLDER]
//
// Budgets are a fifth and half of the way from the smallest to everything. With
// --foreseen-only no step is run: bytes and time are the forecast of the plan
// that is made before the first one, from estimated durations.
//
// With --programs it is the same at more budgets, and for each a program is
// written whose minimum is a bound of what any plan moves: FOLDER/plans.tsv
// says which, for accumulation_bound.py, which solves them and prints the
// table.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/units.h"
#include "benchmarks/linear_bound.h"
#include "benchmarks/synthetic.h"
#include "memory/plan/bounds/lower_bound.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/policy/policies.h"
#include "memory/plan/simulate/simulator.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

// Warm-up, the change to the settled plan, and one more.
constexpr int kSettle = 3;

struct Flags {
  bool fp32 = false;
  bool clip = false;
  bool foreseen_only = false;
  std::string programs;  // the folder, or empty
  double bus_bytes_per_s = 2e9;
  SyntheticRun run = {6, 256, 256, 2, 64};
};

// A budget is a share of the way from the smallest one to everything, or two of
// the largest chunks more than the smallest.
struct Budget {
  const char* name;
  double share = 0;
  int64_t chunks = 0;
};
constexpr Budget kFew[] = {{"a fifth", 0.2}, {"half", 0.5}};
constexpr Budget kMany[] = {{"smallest"},  {"two chunks", 0, 2}, {"10 %", 0.1},
                            {"20 %", 0.2}, {"30 %", 0.3},        {"50 %", 0.5},
                            {"70 %", 0.7}, {"90 %", 0.9}};

struct Run {
  AdmissionReport admission;
  // These are the last step's.
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  double step_seconds = 0;
  int64_t payload_bytes = 0;
  int64_t device_sides = 0;
  int64_t device_sums = 0;
  TrafficBound bound;
};

double Mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void WriteProgram(const PlanRequest& request, const std::string& path) {
  std::FILE* const out = std::fopen(path.c_str(), "w");
  CASTOR_CHECK(out != nullptr);
  const LinearBound bound(request, Objective::kMovedMib);
  std::fputs(bound.program().ToMps().c_str(), out);
  CASTOR_CHECK(std::fclose(out) == 0);
}

// With `admit_only` what a run would need, without a step. The bytes' program
// is written to `program`, if that is not empty.
Run Train(const Flags& flags, int64_t micro_batches, int64_t budget,
          bool admit_only, const std::string& program = {}) {
  Engine engine(flags.fp32 ? DType::kFloat32 : DType::kBFloat16, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(flags.run.Model());
  TrainerOptions options;
  options.shape = flags.run.Shape();
  options.shape.micro_batches = micro_batches;
  options.threads = 2;
  options.bus_bytes_per_s = flags.bus_bytes_per_s;
  options.activation_checkpointing = ActivationCheckpointing::kBlock;
  options.admit_only = admit_only;
  options.optimizer.gradient_clipping = flags.clip ? 1 : 0;
  options.memory.policy = FindPolicy("auto");
  options.memory.device_bytes = budget;
  auto trainer = Trainer::Create(&engine, &model, std::move(options));
  CASTOR_CHECK(trainer.ok());
  Run run;
  run.admission = (*trainer)->admission();
  if (admit_only) return run;
  Plan plan;
  PlanRequest request = (*trainer)->training_request();
  if (flags.foreseen_only) {
    plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
    const PlanCost cost = SimulatePlan(plan, request);
    run.h2d_bytes = cost.h2d_bytes;
    run.d2h_bytes = cost.d2h_bytes;
    run.step_seconds = 1e-9 * static_cast<double>(cost.step_ns);
  } else {
    InitialValues values(1);
    CASTOR_CHECK((*trainer)->Initialize(values).ok());
    int64_t index = 0;
    for (int i = 0; i <= kSettle; ++i) {
      const auto loss = (*trainer)->Step([&]() -> absl::StatusOr<MicroBatch> {
        return flags.run.Batch(index++);
      });
      CASTOR_CHECK(loss.ok());
    }
    CASTOR_CHECK((*trainer)->Drain().ok());
    const StepReport step = (*trainer)->TakeReports().back();
    run.h2d_bytes = step.h2d_bytes;
    run.d2h_bytes = step.d2h_bytes;
    run.step_seconds = step.seconds;
    request = (*trainer)->training_request();
    plan = *(*trainer)->training_plan();
  }
  for (const ChunkInfo& chunk : request.trace->chunks) {
    run.payload_bytes += chunk.payload_bytes;
  }
  run.device_sides =
      std::count(plan.side.begin(), plan.side.end(), Side::kDevice);
  for (const auto& actions : plan.actions) {
    run.device_sums += std::count_if(
        actions.begin(), actions.end(),
        [](const Action& a) { return a.kind == ActionKind::kMakeSum; });
  }
  run.bound = AccumulationBound(request, flags.fp32 ? 1 : 2);
  if (!program.empty()) WriteProgram(request, program);
  return run;
}

void Measure(const Flags& flags) {
  std::printf(
      "GPT-2 %ld x %ld, V %ld, %ld x %ld tokens a micro batch, %s, block "
      "checkpointing, bus %g GB/s each way\n",
      static_cast<long>(flags.run.layers), static_cast<long>(flags.run.width),
      static_cast<long>(flags.run.vocabulary),
      static_cast<long>(flags.run.batch), static_cast<long>(flags.run.length),
      flags.fp32 ? "fp32" : "bf16", flags.bus_bytes_per_s * 1e-9);
  std::FILE* rows = nullptr;
  if (!flags.programs.empty()) {
    rows = std::fopen((flags.programs + "/plans.tsv").c_str(), "w");
    CASTOR_CHECK(rows != nullptr);
    std::fprintf(
        rows, "budget\tA\tprogram\tpayload MiB\th2d MiB\td2h MiB\tstep ms\n");
  }
  std::printf("%-10s %3s %10s %9s %9s %9s %9s %9s %8s %8s\n", "budget", "A",
              "bytes", "h2d", "least", "d2h", "least", "step ms", "dev.s.",
              "sums");
  int64_t number = 0;
  for (const Budget& budget : rows == nullptr ? absl::MakeConstSpan(kFew)
                                              : absl::MakeConstSpan(kMany)) {
    for (const int64_t micro_batches : {1, 2, 4, 8}) {
      const AdmissionReport needs =
          Train(flags, micro_batches, kUnlimitedBytes, /*admit_only=*/true)
              .admission;
      const int64_t least = needs.smallest_device_budget_bytes;
      const double way =
          static_cast<double>(needs.unmanaged_device_bytes - least);
      const int64_t bytes = least + static_cast<int64_t>(budget.share * way) +
                            budget.chunks * needs.chunk_bytes;
      std::string program;
      if (rows != nullptr) program = absl::StrCat(number++, ".mps");
      const Run run = Train(
          flags, micro_batches, bytes, /*admit_only=*/false,
          rows == nullptr ? "" : absl::StrCat(flags.programs, "/", program));
      const double payload = static_cast<double>(run.payload_bytes);
      std::printf("%-10s %3ld %10s %9.3f %9.3f %9.3f %9.3f %9.1f %8ld %8ld\n",
                  budget.name, static_cast<long>(micro_batches),
                  FormatBytes(bytes).c_str(),
                  static_cast<double>(run.h2d_bytes) / payload,
                  static_cast<double>(run.bound.h2d_bytes) / payload,
                  static_cast<double>(run.d2h_bytes) / payload,
                  static_cast<double>(run.bound.d2h_bytes) / payload,
                  1e3 * run.step_seconds, static_cast<long>(run.device_sides),
                  static_cast<long>(run.device_sums));
      if (rows == nullptr) continue;
      std::fprintf(rows, "%s\t%ld\t%s\t%.9g\t%.9g\t%.9g\t%.6f\n", budget.name,
                   static_cast<long>(micro_batches), program.c_str(),
                   Mib(run.payload_bytes), Mib(run.h2d_bytes),
                   Mib(run.d2h_bytes), 1e3 * run.step_seconds);
    }
  }
  if (rows != nullptr) CASTOR_CHECK(std::fclose(rows) == 0);
  std::printf(
      "h2d, d2h: in payloads of the model; least: of the fewest bytes in all "
      "that any plan moves, wherever it has optimizer states, sums and "
      "payloads; dev.s.: chunks whose optimizer states are on the device; "
      "sums: other chunks whose gradients the device adds up\n");
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  castor::Flags flags;
  const auto take = [&](int* at) {
    return castor::TakeFlag("--fp32", argv, at, &flags.fp32) ||
           castor::TakeFlag("--clip", argv, at, &flags.clip) ||
           castor::TakeFlag("--foreseen-only", argv, at,
                            &flags.foreseen_only) ||
           castor::TakeText("--programs", argc, argv, at, &flags.programs) ||
           castor::TakePositive("--bus", argc, argv, at,
                                &flags.bus_bytes_per_s) ||
           flags.run.TakeArgument(argc, argv, at);
  };
  if (!castor::TakeArguments("accumulation", argc, argv, take)) return 2;
  flags.foreseen_only |= !flags.programs.empty();
  castor::Measure(flags);
}
