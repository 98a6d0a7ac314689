// Plans of all policies for arbitrary steps, for tests of properties of any
// plan.
#ifndef CASTOR_BENCHMARKS_RANDOM_PLANS_H_
#define CASTOR_BENCHMARKS_RANDOM_PLANS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {

inline constexpr uint64_t kSeeds = 300;

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

inline double StepMs(const PlanCost& cost) {
  return static_cast<double>(cost.step_ns) * 1e-6;
}

// Checks that every plan is a point of a bound's program with its simulated
// step for the objective, so that the program's minimum is a bound for all of
// them.
template <class Bound>
void ExpectEveryPlanIsAPointOf() {
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
    const Bound bound(request);
    EXPECT_LE(bound.program().Excess(bound.PointOf(plan, cost, StepMs(cost))),
              1e-6);
    ++points;
  });
  EXPECT_EQ(points + unsettled, kSeeds * Policies().size());
  // Steps may also be alike by turns.
  EXPECT_LE(unsettled, points / 20);
}

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_RANDOM_PLANS_H_
