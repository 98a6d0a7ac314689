#include "benchmarks/linear_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <variant>

#include "memory/plan/planner.h"
#include "memory/plan/simulator.h"
#include "memory/plan/trace_generator.h"

namespace castor {
namespace {

// Every plan is a point of the program with its simulated step for the
// objective, so that the program's least is a bound for all of them.
TEST(LinearBound, HasEveryPlanForAPoint) {
  int64_t points = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 1 + static_cast<int64_t>(seed % 6);
    options.operators = 1 + static_cast<int64_t>(seed % 11);
    options.micro_batches = 1 + static_cast<int64_t>(seed % 4);
    StepTrace trace = ArbitraryTrace(options, seed);
    trace.global_norm = seed % 3 == 0;
    PlanRequest request;
    request.trace = &trace;
    request.bus.h2d_bytes_per_s = seed % 5 == 0 ? 1e8 : 1e9;
    request.bus.d2h_bytes_per_s = seed % 7 == 0 ? 1e8 : 1e9;
    request.bus.latency_ns = seed % 2 == 0 ? 100 : 0;
    if (seed % 4 == 1) {
      request.world_size = 2;
      for (ChunkInfo& chunk : trace.chunks) {
        chunk.shard_bytes = (chunk.payload_bytes + 1) / 2;
      }
    }
    for (const PlacementPolicy& policy : Policies()) {
      request.device_budget_bytes = SmallestDeviceBudget(&policy, request) +
                                    static_cast<int64_t>(seed * 977 % 40000);
      const Plan plan = std::get<Plan>(MakePlan(&policy, request));
      const PlanCost cost = SimulatePlan(plan, request);
      // The last of few simulated steps may still profit from queues that were
      // empty at the start; in the long run none is shorter than its work.
      const int64_t busiest_ns = cost.busy_ns[static_cast<int>(cost.Busiest())];
      const double step_ms =
          static_cast<double>(std::max(cost.step_ns, busiest_ns)) * 1e-6;
      const LinearBound bound(request);
      EXPECT_LE(bound.program().Excess(bound.PointOf(plan, step_ms)), 1e-6)
          << "seed " << seed << ", policy " << policy.name;
      ++points;
    }
  }
  EXPECT_EQ(points, 300 * static_cast<int64_t>(Policies().size()));
}

TEST(LinearBound, LeavesNoRoomForMoreThanTheBudget) {
  const StepTrace trace = ArbitraryTrace({.micro_batches = 2}, 3);
  PlanRequest request;
  request.trace = &trace;
  request.device_budget_bytes =
      SmallestDeviceBudget(FindPolicy("cuda"), request);
  const LinearBound ample(request);
  const Plan plan = std::get<Plan>(MakePlan(FindPolicy("cuda"), request));
  const double step_ms =
      static_cast<double>(SimulatePlan(plan, request).step_ns) * 1e-6;
  EXPECT_LE(ample.program().Excess(ample.PointOf(plan, step_ms)), 1e-6);
  // The plan is no point for a step that is shorter than its operators.
  EXPECT_GT(ample.program().Excess(ample.PointOf(plan, 0.5 * step_ms)), 0.1);
  request.device_budget_bytes -= 4 * kBlockAlignment;
  const LinearBound tight(request);
  EXPECT_GT(tight.program().Excess(tight.PointOf(plan, step_ms)), 1e-6);
}

}  // namespace
}  // namespace castor
