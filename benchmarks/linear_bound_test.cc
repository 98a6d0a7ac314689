#include "benchmarks/linear_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "memory/plan/planner.h"
#include "memory/plan/simulator.h"
#include "memory/plan/trace_builder.h"
#include "memory/plan/trace_generator.h"

namespace castor {
namespace {

double StepMs(const PlanCost& cost) {
  return static_cast<double>(cost.step_ns) * 1e-6;
}

constexpr uint64_t kSeeds = 300;

// Calls `visit` with a request for each seed and a plan of each policy for it.
template <class Visit>
void ForEachPlan(const Visit& visit) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 1 + static_cast<int64_t>(seed % 6);
    options.operators = 1 + static_cast<int64_t>(seed % 11);
    options.micro_batches = 1 + static_cast<int64_t>(seed % 4);
    options.activations = seed % 9 == 8 ? 2 : 0;
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
        if (chunk.holds_activations()) continue;
        chunk.shard_bytes = (chunk.payload_bytes + 1) / 2;
      }
    }
    for (const PlacementPolicy& policy : Policies()) {
      request.device_budget_bytes = SmallestDeviceBudget(&policy, request) +
                                    static_cast<int64_t>(seed * 977 % 40000);
      const Plan plan = std::get<Plan>(MakePlan(&policy, request));
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", policy ", policy.name));
      visit(request, plan);
    }
  }
}

// Every plan is a point of the program with its simulated step for the
// objective, so that the program's least is a bound for all of them.
TEST(LinearBound, HasEveryPlanForAPoint) {
  int64_t points = 0, unsettled = 0;
  ForEachPlan([&](const PlanRequest& request, const Plan& plan) {
    // A step of the steady state: the first ones profit from queues that were
    // empty at the start.
    const Simulator simulator(request);
    const PlanCost cost = simulator.SimulateSteps(plan, 60);
    const PlanCost next = simulator.SimulateSteps(plan, 61);
    if (cost.step_ns != next.step_ns || cost.op_start_ns != next.op_start_ns) {
      ++unsettled;
      return;
    }
    const LinearBound bound(request);
    EXPECT_LE(bound.program().Excess(bound.PointOf(plan, cost, StepMs(cost))),
              1e-6);
    ++points;
  });
  EXPECT_EQ(points + unsettled, kSeeds * Policies().size());
  // Steps may also be alike by turns.
  EXPECT_LE(unsettled, points / 20);
}

// The same with the bytes that a plan moves, and not with fewer: what goes to
// the device is counted to the byte, and what comes from it but for gradients
// that leave half written in a micro batch that is not the last.
TEST(LinearBound, HasEveryPlanForAPointWithItsBytes) {
  int64_t points = 0, exact = 0;
  ForEachPlan([&](const PlanRequest& request, const Plan& plan) {
    const PlanCost cost = SimulatePlan(plan, request);
    constexpr double kMib = 1 << 20;
    const double h2d_mib = static_cast<double>(cost.h2d_bytes) / kMib;
    const double d2h_mib = static_cast<double>(cost.d2h_bytes) / kMib;
    const LinearBound bound(request, Objective::kMovedMib);
    const std::vector<double> point =
        bound.PointOf(plan, cost, h2d_mib + d2h_mib);
    EXPECT_LE(bound.program().Excess(point), 1e-6);
    if (request.world_size > 1) return;
    EXPECT_NEAR(point[1], h2d_mib, 1e-6 * (1 + h2d_mib));
    EXPECT_LE(point[2], d2h_mib + 1e-6);
    ++points;
    if (point[2] < d2h_mib - 1e-6) return;
    ++exact;
    if (h2d_mib + d2h_mib == 0) return;
    EXPECT_GT(bound.program().Excess(
                  bound.PointOf(plan, cost, 0.99 * (h2d_mib + d2h_mib))),
              1e-4);
  });
  EXPECT_GT(points, kSeeds);
  EXPECT_GE(exact, points * 9 / 10);
}

// An operator in the middle takes all the room, so that the chunk of the one
// after it can come only when it is over, and likewise around the step's end.
TEST(LinearBound, LetsNothingComeWhereThereIsNoRoom) {
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
  const LinearBound bound(request);
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
  const LinearBound bound(request);
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
TEST(LinearBound, LetsGradientsGoBeforeAPayloadComesInTheirPlace) {
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
TEST(LinearBound, WaitsForTheHostBetweenMicroBatches) {
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

TEST(LinearBound, LeavesNoRoomForMoreThanTheBudget) {
  const StepTrace trace = ArbitraryTrace({.micro_batches = 2}, 3);
  PlanRequest request;
  request.trace = &trace;
  request.device_budget_bytes =
      SmallestDeviceBudget(FindPolicy("cuda"), request);
  const LinearBound ample(request);
  const Plan plan = std::get<Plan>(MakePlan(FindPolicy("cuda"), request));
  const PlanCost cost = SimulatePlan(plan, request);
  const double step_ms = StepMs(cost);
  EXPECT_LE(ample.program().Excess(ample.PointOf(plan, cost, step_ms)), 1e-6);
  // The plan is no point for a step that is shorter than its operators.
  EXPECT_GT(ample.program().Excess(ample.PointOf(plan, cost, 0.5 * step_ms)),
            0.1);
  request.device_budget_bytes -= 4 * kBlockAlignment;
  const LinearBound tight(request);
  EXPECT_GT(tight.program().Excess(tight.PointOf(plan, cost, step_ms)), 1e-6);
}

}  // namespace
}  // namespace castor
