#include "research/tight_bound.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "benchmarks/random_plans.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

TEST(TightBound, HasEveryPlanForAPoint) {
  ExpectEveryPlanIsAPointOf<TightBound>();
}

// An operator in the middle takes all the room, so that the chunk of the one
// after it can come only when it is over, and likewise around the step's end.
TEST(TightBound, LetsNothingComeWhereThereIsNoRoom) {
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(1024, 0)
                              .Chunk(1024, 0)
                              .Read({0}, 0, 1000)
                              .Read({}, 1024, 3000)
                              .Read({1}, 0, 1000)
                              .Build();
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes = 1024;
  const Plan plan = std::get<Plan>(MakePlan(FindPolicy("cpu"), request));
  const PlanCost cost = Simulator(request).SimulateSteps(plan, 10);
  EXPECT_EQ(cost.step_ns, 1000 + 3000 + 1024 + 1000 + 1024);
  const TightBound bound(request);
  EXPECT_LE(bound.program().Excess(bound.PointOf(plan, cost, StepMs(cost))),
            1e-6);
  // As if the second chunk came while the operator in the middle runs: each
  // resource alone has time enough.
  PlanCost shorter = cost;
  shorter.step_ns -= 1024;
  shorter.op_start_ns = {0, 1000, 4000};
  EXPECT_GT(
      bound.program().Excess(bound.PointOf(plan, shorter, StepMs(shorter))),
      0.9);
}

// Checks that the plan for the smallest budget is a point, and none any more
// without any of the times for which its operators wait. Returns their number.
int64_t ExpectEachWaitIsNeeded(const StepTrace& trace) {
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes =
      SmallestDeviceBudget(FindPolicy("auto"), request);
  const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
  const PlanCost cost = Simulator(request).SimulateSteps(plan, 10);
  const TightBound bound(request);
  const auto excess = [&](const PlanCost& other) {
    return bound.program().Excess(bound.PointOf(plan, other, StepMs(other)));
  };
  EXPECT_LE(excess(cost), 1e-6);
  int64_t waits = 0;
  int64_t end_ns = 0;  // of the operator before
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    if (trace.ops[t].kind != OpKind::kCompute) continue;
    const int64_t wait_ns = cost.op_start_ns[t] - end_ns;
    end_ns = cost.op_start_ns[t] + trace.ops[t].duration_ns;
    if (wait_ns <= 0) continue;
    ++waits;
    PlanCost shorter = cost;
    shorter.step_ns -= wait_ns;
    for (size_t later = t; later < trace.ops.size(); ++later) {
      shorter.op_start_ns[later] -= wait_ns;
    }
    EXPECT_GT(excess(shorter), 0.1) << "operator " << t;
  }
  return waits;
}

// Gradients must have gone before the payload of the operator behind them can
// come, and neither crosses the bus while an operator runs.
TEST(TightBound, LetsGradientsGoBeforeAPayloadComesInTheirPlace) {
  EXPECT_EQ(ExpectEachWaitIsNeeded(TraceBuilder()
                                       .Chunk(1024, 4096)
                                       .Chunk(1024, 4096)
                                       .Read({0}, 0, 1000)
                                       .Read({1}, 0, 1000)
                                       .Write({1}, 0, 1000)
                                       .Reduce(1, 100)
                                       .Write({0}, 0, 1000)
                                       .Reduce(0, 100)
                                       .Update(0, 300)
                                       .Update(1, 300)
                                       .Build()),
            2);
}

// The parameters for the next micro batch come when the host has reduced the
// gradients that lay in their place.
TEST(TightBound, WaitsForTheHostBetweenMicroBatches) {
  EXPECT_EQ(ExpectEachWaitIsNeeded(TraceBuilder()
                                       .MicroBatches(2)
                                       .Chunk(1024, 4096)
                                       .Read({0}, 0, 1000)
                                       .Write({0}, 0, 1000)
                                       .Reduce(0, 700)
                                       .Read({0}, 0, 1000)
                                       .Write({0}, 0, 1000)
                                       .Reduce(0, 700)
                                       .Update(0, 300)
                                       .Build()),
            1);
}

}  // namespace
}  // namespace castor
