// Measures for how many plans addresses are found within the budget, at 21
// budgets from the smallest to everything, and how long that takes: processor
// time of one thread. With --run it measures how much steps move blocks, and
// how long they wait, in the steady state, without planned addresses and with
// them. In some cases all blocks' activations may go to the host; --offloaded
// takes these alone.
//
//   bazel run -c opt //benchmarks:addresses -- [--run] [--offloaded]
#include "memory/plan/addresses/addresses.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/median.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "benchmarks/dry_trace.h"
#include "benchmarks/synthetic.h"
#include "memory/plan/addresses/expected_moves.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/blocks/offloaded_blocks.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

struct Case {
  SyntheticRun run;
  int64_t micro_batches = 1;
  bool remade = false;     // no block keeps its activations
  bool offloaded = false;  // all blocks' may go to the host
  DType dtype = DType::kBFloat16;
};

double ProcessorSeconds() {
  timespec now;
  CASTOR_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

void PrintCase(const Case& c) {
  std::printf("GPT-2 %ld x %ld, %ld x %ld tokens, A = %ld, %s, %s",
              static_cast<long>(c.run.layers), static_cast<long>(c.run.width),
              static_cast<long>(c.run.batch), static_cast<long>(c.run.length),
              static_cast<long>(c.micro_batches),
              c.dtype == DType::kBFloat16 ? "bf16" : "fp32",
              c.remade      ? "blocks made again"
              : c.offloaded ? "blocks kept by way of the host"
                            : "blocks kept");
}

// Returns true if activations come back from the host.
bool Returns(const Plan& plan, const StepTrace& trace) {
  for (const std::vector<Action>& actions : plan.actions) {
    for (const Action& action : actions) {
      if (RowOf(action.kind).direction() == CopyDirection::kToHost &&
          trace.chunks[action.chunk.value].holds_activations()) {
        return true;
      }
    }
  }
  return false;
}

void Measure(const Case& c) {
  StepTrace trace = DryTrace(c.run, c.micro_batches, c.dtype, c.remade);
  PlanRequest request;
  request.trace = &trace;
  request.bus = BusForShare(trace, 0.5);
  if (c.offloaded) trace = WithOffloadedBlocks(trace, AllBlocks(trace));
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  PrintCase(c);
  std::printf(": %zu operators, %zu tensors, %zu chunks, %s to %s\n",
              trace.ops.size(), trace.tensors.size(), trace.chunks.size(),
              FormatBytes(least).c_str(), FormatBytes(most).c_str());
  int64_t found = 0, at_once = 0, plans = 0, leaving = 0, found_leaving = 0;
  double most_plan = 0, most_pack = 0;
  for (int64_t percent = 0; percent <= 100; percent += 5) {
    request.device_budget_bytes = least + (most - least) * percent / 100;
    const double start = ProcessorSeconds();
    Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
    const double planned = ProcessorSeconds();
    const PlanCost cost = SimulatePlan(plan, request);
    const ExpectedMoves moves = *ExpectMoves(plan, request);
    const auto addresses = FindAddresses(plan, request, cost);
    at_once += addresses.has_value();
    const double before = ProcessorSeconds();
    plan = WithAddresses(std::move(plan), request, [&](const Plan& made) {
      return SimulatePlan(made, request);
    });
    const double packed = ProcessorSeconds();
    most_plan = std::max(most_plan, planned - start);
    most_pack = std::max(most_pack, packed - before);
    ++plans;
    found += plan.addresses.has_value();
    leaving += Returns(plan, trace);
    found_leaving += Returns(plan, trace) && plan.addresses.has_value();
    if (addresses.has_value()) continue;
    std::printf("  %ld%%: %s; without, %ld moves of %s a step\n",
                static_cast<long>(percent),
                plan.addresses.has_value() ? "on a plan for less" : "none",
                static_cast<long>(moves.times),
                FormatBytes(moves.bytes).c_str());
  }
  std::printf(
      "  found %ld (%ld at once) of %ld; plan at most %.3f s, addresses %.3f "
      "s\n",
      static_cast<long>(found), static_cast<long>(at_once),
      static_cast<long>(plans), most_plan, most_pack);
  if (!c.offloaded) return;
  std::printf("  activations leave in %ld, of which %ld have addresses\n",
              static_cast<long>(leaving), static_cast<long>(found_leaving));
}

// Steps with the plan settled.
constexpr int kSettle = 8, kSteps = 8;

struct Steady {
  ArenaStats stats;                            // of kSteps steps
  double step_seconds = 0, stall_seconds = 0;  // medians
  bool planned = false;
  int64_t activation_bytes = 0;  // that came back from the host
  AdmissionReport admission;
};

Steady Train(const Case& c, int64_t budget, bool plan_addresses,
             double bus_bytes_per_s) {
  Engine engine(c.dtype, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(c.run.Model());
  TrainerOptions options;
  options.shape = c.run.Shape();
  options.shape.micro_batches = c.micro_batches;
  options.threads = AvailableProcessors();
  options.bus_bytes_per_s = bus_bytes_per_s;
  options.optimizer.gradient_clipping = 1;
  options.memory.device_bytes = budget;
  options.planning.addresses = plan_addresses;
  if (c.remade) {
    options.activation_checkpointing = ActivationCheckpointing::kBlock;
  }
  if (c.offloaded) {
    options.activation_checkpointing = ActivationCheckpointing::kAuto;
    options.planning.offloaded_blocks.assign(c.run.layers, true);
  }
  auto trainer = Trainer::Create(&engine, &model, options);
  CASTOR_CHECK(trainer.ok());
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());
  int64_t index = 0;
  ArenaStats before;
  int64_t back_before = 0;
  for (int i = 0; i < kSettle + kSteps; ++i) {
    if (i == kSettle) {
      CASTOR_CHECK((*trainer)->Drain().ok());
      before = (*trainer)->arena_stats();
      back_before = (*trainer)->activation_bytes_back();
    }
    const auto loss = (*trainer)->Step(
        [&]() -> absl::StatusOr<MicroBatch> { return c.run.Batch(index++); });
    CASTOR_CHECK(loss.ok());
  }
  CASTOR_CHECK((*trainer)->Drain().ok());
  Steady steady;
  steady.stats = (*trainer)->arena_stats();
  steady.stats.compactions -= before.compactions;
  steady.stats.moved_bytes -= before.moved_bytes;
  steady.stats.placed_as_planned -= before.placed_as_planned;
  steady.stats.misplaced -= before.misplaced;
  steady.activation_bytes = (*trainer)->activation_bytes_back() - back_before;
  steady.planned = (*trainer)->training_plan()->addresses.has_value();
  steady.admission = (*trainer)->admission();
  std::vector<double> seconds, stalls;
  for (const StepReport& step : (*trainer)->TakeReports()) {
    if (step.step <= kSettle + 1) continue;
    seconds.push_back(step.seconds);
    stalls.push_back(step.stall_seconds);
  }
  steady.step_seconds = Median(seconds);
  steady.stall_seconds = Median(stalls);
  return steady;
}

// Runs without planned addresses and with them, in turns.
void Run(const Case& c, double bus_bytes_per_s) {
  const Steady all = Train(c, kUnlimitedBytes, true, bus_bytes_per_s);
  const int64_t least = all.admission.smallest_device_budget_bytes;
  const int64_t most = all.admission.unmanaged_device_bytes;
  PrintCase(c);
  std::printf(
      "\n%7s | %32s | %32s %8s %9s %12s\n"
      "%7s | %10s %12s %8s | %10s %12s %8s\n",
      "", "placed at issue", "addresses planned", "planned", "misplaced",
      "activations", "budget", "moves/step", "bytes/step", "stall",
      "moves/step", "bytes/step", "stall");
  for (const int64_t percent : {0, 2, 5, 10, 15, 20, 30, 50, 80}) {
    const int64_t budget = least + (most - least) * percent / 100;
    const Steady first_fit = Train(c, budget, false, bus_bytes_per_s);
    const Steady planned = Train(c, budget, true, bus_bytes_per_s);
    std::printf("%6ld%%", static_cast<long>(percent));
    for (const Steady* steady : {&first_fit, &planned}) {
      std::printf(" | %10.1f %12.0f %7.1f%%",
                  static_cast<double>(steady->stats.compactions) / kSteps,
                  static_cast<double>(steady->stats.moved_bytes) / kSteps,
                  100 * steady->stall_seconds / steady->step_seconds);
    }
    std::printf(" %8s %9ld %12.0f\n", planned.planned ? "yes" : "no",
                static_cast<long>(planned.stats.misplaced),
                static_cast<double>(planned.activation_bytes) / kSteps);
  }
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  using castor::Case;
  using castor::DType;
  bool run = false, offloaded = false;
  if (!castor::TakeArguments(argv[0], argc, argv, [&](int* at) {
        return castor::TakeFlag("--run", argv, at, &run) ||
               castor::TakeFlag("--offloaded", argv, at, &offloaded);
      })) {
    return 1;
  }
  const castor::SyntheticRun small = {6, 256, 1000, 2, 64};
  const castor::SyntheticRun medium = {24, 1024, 50257, 1, 1024};
  const std::vector<Case> runs = {
      {.run = small},
      {.run = small, .micro_batches = 4},
      {.run = small, .micro_batches = 4, .remade = true},
      {.run = {6, 256, 1000, 8, 64}, .offloaded = true}};
  const std::vector<Case> plans = {
      {.run = small},
      {.run = small, .dtype = DType::kFloat32},
      {.run = {6, 384, 256, 4, 256}, .dtype = DType::kFloat32},
      {.run = small, .micro_batches = 4},
      {.run = small, .micro_batches = 4, .remade = true},
      {.run = {24, 1024, 50257, 4, 1024}, .remade = true},
      {.run = medium},
      {.run = {48, 1600, 50257, 1, 1024}, .micro_batches = 8},
      {.run = {96, 256, 1000, 1, 64}, .micro_batches = 32},
      {.run = {6, 384, 256, 4, 256},
       .offloaded = true,
       .dtype = DType::kFloat32},
      {.run = small, .micro_batches = 4, .offloaded = true},
      {.run = {24, 1024, 50257, 4, 1024}, .offloaded = true}};
  for (const Case& c : run ? runs : plans) {
    if (offloaded && !c.offloaded) continue;
    if (run) {
      castor::Run(c, /*bus_bytes_per_s=*/2e9);
    } else {
      castor::Measure(c);
    }
  }
}
