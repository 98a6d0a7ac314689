// Compares the plans of the auto policy with the least that a step takes.
#include <gtest/gtest.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/policy/policies.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

StepTrace Untied() {
  GptTraceOptions options;
  options.layers = 12;
  options.channels = 768;
  options.batch = 4;
  options.chunk_elements = 4 * options.channels * options.channels;
  options.tied_embeddings = false;
  StepTrace trace = GptTrace(options);
  trace.global_norm = true;
  return trace;
}

PlanRequest RequestFor(const StepTrace& trace, int64_t percent) {
  PlanRequest request;
  request.trace = &trace;
  request.bus = {20e9, 20e9, 10000, 10e9};
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  request.device_budget_bytes = least + (most - least) / 100 * percent;
  return request;
}

// The embedding and the head are large beside the other chunks, so it matters
// whose states are on the device, not only how many bytes of them.
TEST(Auto, HidesNearlyAllTransfersOfAnUntiedStep) {
  const StepTrace trace = Untied();
  const int64_t compute_ns = trace.compute_ns();
  for (const int64_t percent : {70, 80, 90}) {
    const PlanRequest request = RequestFor(trace, percent);
    const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
    const PlanCost cost = SimulatePlan(plan, request);
    EXPECT_LE(static_cast<double>(cost.step_ns),
              1.05 * static_cast<double>(compute_ns))
        << percent;
  }
}

// Whatever is tried, states take no more of the free bytes than they may.
TEST(Auto, KeepsToTheMarginForStates) {
  const StepTrace trace = Untied();
  for (const int64_t percent : {20, 50, 80}) {
    for (const double ratio : {0.0, 0.25, 1.0}) {
      PlanRequest request = RequestFor(trace, percent);
      request.gpu_margin_mem_ratio = ratio;
      const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
      ASSERT_TRUE(plan.instead_of_unproven.empty());
      const std::vector<Side> none(trace.chunks.size(), Side::kHost);
      const int64_t free_bytes =
          request.device_budget_bytes - PeakNeededDeviceBytes(request, none);
      int64_t bytes = 0;
      for (size_t c = 0; c < trace.chunks.size(); ++c) {
        if (plan.side[c] == Side::kHost) continue;
        bytes += OptimizerBlock(trace.chunks[c]);
      }
      EXPECT_LE(static_cast<double>(bytes),
                ratio * static_cast<double>(free_bytes))
          << percent << " " << ratio;
    }
  }
}

}  // namespace
}  // namespace castor
