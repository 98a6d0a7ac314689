// The step that the planner foresees where it chooses which blocks keep their
// activations ("auto"), beside ProTrain's four numbers: plans of the dry pass,
// from estimated durations.
//
//   bazel run -c opt //research:four_numbers
//
// The bus takes, in its busier direction, half of the step's compute time for
// the payloads that a step without any cache moves.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/units.h"
#include "benchmarks/dry_trace.h"
#include "benchmarks/synthetic.h"
#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"
#include "research/baseline_search.h"
#include "research/protrain_blocks.h"

namespace castor {
namespace {

struct Case {
  SyntheticRun run;
  int64_t micro_batches = 1;
  DType dtype = DType::kBFloat16;
};

double Ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

void PrintChoice(const BlockChoice& choice, const PlanRequestFor& request_for) {
  const BlockCount count = CountBlocks(choice.trace);
  std::printf(" | %9.2f  %2ld, %2ld, %2ld",
              Ms(SimulatedStepNs(choice.plan, request_for(choice.trace))),
              static_cast<long>(count.kept), static_cast<long>(count.offloaded),
              static_cast<long>(count.blocks - count.kept - count.offloaded));
}

void Measure(const Case& c) {
  const StepTrace dry =
      DryTrace(c.run, c.micro_batches, c.dtype, /*remade=*/false);
  CASTOR_CHECK(!dry.blocks.empty());
  const StepTrace trace = WithKeptBlocks(dry, KeptBlocks());  // none
  const StepTrace all = WithKeptBlocks(trace, AllBlocks(trace));
  PlanRequest request;
  request.bus = BusForShare(trace, 0.5);
  const PlanRequestFor request_for = [&](const StepTrace& asked_for) {
    PlanRequest asked = request;
    asked.trace = &asked_for;
    return asked;
  };
  const int64_t least =
      SmallestDeviceBudget(FindPolicy("auto"), request_for(trace));
  const int64_t most =
      SmallestDeviceBudget(FindPolicy("cuda"), request_for(all));
  std::printf(
      "GPT-2 %ld x %ld, %ld x %ld tokens, A = %ld, %s: %s to %s\n%9s | %s\n",
      static_cast<long>(c.run.layers), static_cast<long>(c.run.width),
      static_cast<long>(c.run.batch), static_cast<long>(c.run.length),
      static_cast<long>(c.micro_batches),
      c.dtype == DType::kBFloat16 ? "bf16" : "fp32", FormatBytes(least).c_str(),
      FormatBytes(most).c_str(), "budget",
      "auto ms, blocks kept, swapped, recomputed | four numbers | four numbers "
      "to auto");
  for (const int64_t percent : {0, 5, 10, 20, 30, 50, 70, 90}) {
    request.device_budget_bytes = least + (most - least) * percent / 100;
    const BlockChoice ours = std::get<BlockChoice>(
        ChooseKeptBlocks(FindPolicy("auto"), trace, request_for));
    const BlockChoice theirs =
        std::get<BlockChoice>(ChooseProTrainBlocks(trace, request_for));
    std::printf("%7ld %%", static_cast<long>(percent));
    PrintChoice(ours, request_for);
    PrintChoice(theirs, request_for);
    std::printf(" | %.4f\n", static_cast<double>(SimulatedStepNs(
                                 theirs.plan, request_for(theirs.trace))) /
                                 static_cast<double>(SimulatedStepNs(
                                     ours.plan, request_for(ours.trace))));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace castor

int main() {
  using castor::DType;
  // Layers, width, vocabulary, batch, length; micro batches.
  castor::Measure({{8, 256, 1024, 8, 256}, 1, DType::kFloat32});
  castor::Measure({{12, 768, 50257, 4, 512}, 1, DType::kBFloat16});
  castor::Measure({{12, 768, 50257, 1, 512}, 4, DType::kBFloat16});
  castor::Measure({{24, 1024, 50257, 4, 1024}, 1, DType::kBFloat16});
}
