// Compares the forecast of a step with the mean of many that follow one
// another, over arbitrary traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <variant>

#include "base/sanitizers.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

TEST(Simulate, ForeseesTheMeanOfManySteps) {
  int64_t cases = 0, near = 0;
  for (uint64_t seed = 0; seed < SanitizedCases(200); ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 2 + static_cast<int64_t>(seed % 5);
    options.micro_batches = 1 + static_cast<int64_t>(seed % 3);
    options.activations = seed % 4 == 3 ? 2 : 0;
    StepTrace trace = ArbitraryTrace(options, seed);
    trace.global_norm = seed % 2 == 0;
    PlanRequest request;
    request.trace = &trace;
    request.bus.h2d_bytes_per_s = seed % 3 == 0 ? 1e8 : 1e9;
    request.bus.d2h_bytes_per_s = seed % 5 == 0 ? 1e8 : 1e9;
    for (const PlacementPolicy& policy : Policies()) {
      request.device_budget_bytes = SmallestDeviceBudget(&policy, request) +
                                    static_cast<int64_t>(seed * 977 % 40000);
      const Plan plan = std::get<Plan>(MakePlan(&policy, request));
      const Simulator simulator(request);
      const PlanCost cost = simulator.Simulate(plan);
      for (const int64_t busy_ns : cost.busy_ns) {
        EXPECT_GE(cost.step_ns, busy_ns) << seed << " " << policy.name;
      }
      constexpr int kSteps = 8;
      int64_t sum_ns = 0;
      for (int step = 0; step < kSteps; ++step) {
        sum_ns += simulator.SimulateSteps(plan, 32 + step).step_ns;
      }
      const double ratio = static_cast<double>(cost.step_ns) * kSteps /
                           static_cast<double>(std::max<int64_t>(1, sum_ns));
      ++cases;
      near += ratio > 0.999 && ratio < 1.001;
      EXPECT_GT(ratio, 0.9) << seed << " " << policy.name;
      EXPECT_LT(ratio, 1.1) << seed << " " << policy.name;
    }
  }
  std::printf("%ld of %ld within a thousandth\n", static_cast<long>(near),
              static_cast<long>(cases));
  EXPECT_GE(near, cases * 99 / 100);
}

}  // namespace
}  // namespace castor
