#include "benchmarks/linear_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "benchmarks/random_plans.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

TEST(LinearBound, HasEveryPlanForAPoint) {
  ExpectEveryPlanIsAPointOf<LinearBound>();
}

// The same holds for the bytes that a plan moves, and not for fewer: bytes to
// the device are counted exactly, and so are those from it, except gradients
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
