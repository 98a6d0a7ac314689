#include "benchmarks/baseline_policies.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>

#include "memory/plan/planner.h"
#include "memory/plan/simulator.h"
#include "memory/plan/trace_generator.h"

namespace castor {
namespace {

// A baseline whose plans fail would be replaced by the cpu policy's, and prove
// nothing.
TEST(BaselinePolicies, HavePlansThatAreProven) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 1 + static_cast<int64_t>(seed % 7);
    options.operators = static_cast<int64_t>(seed % 13);
    options.micro_batches = 1 + static_cast<int64_t>(seed % 3);
    options.training = seed % 5 != 0;
    const StepTrace trace = ArbitraryTrace(options, seed);
    PlanRequest request;
    request.trace = &trace;
    request.prefetch = seed % 4 != 0;
    for (const PlacementPolicy& policy : BaselinePolicies()) {
      request.device_budget_bytes =
          SmallestDeviceBudget(&policy, request) +
          (seed % 6 == 0 ? 0 : static_cast<int64_t>(seed * 977 % 50000));
      const Plan plan = std::get<Plan>(MakePlan(&policy, request));
      EXPECT_EQ(plan.instead_of_unproven, "")
          << std::string(policy.name) << ", seed " << seed;
    }
  }
}

// Each does what it is known for.
TEST(BaselinePolicies, AreFasterThanCpuWithRoomAndSlowerThanAuto) {
  GptTraceOptions options;
  options.layers = 6;
  const StepTrace trace = GptTrace(options);
  PlanRequest request;
  request.trace = &trace;
  request.bus = BusForShare(trace, 1.0);
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  request.device_budget_bytes = least + (most - least) / 2;
  const auto step_ns = [&](const PlacementPolicy* policy) {
    const Plan plan = std::get<Plan>(MakePlan(policy, request));
    return SimulatePlan(plan, request).step_ns;
  };
  const int64_t cpu_ns = step_ns(FindPolicy("cpu"));
  const int64_t auto_ns = step_ns(FindPolicy("auto"));
  for (const PlacementPolicy& policy : BaselinePolicies()) {
    EXPECT_LT(step_ns(&policy), cpu_ns) << std::string(policy.name);
    EXPECT_GE(step_ns(&policy), auto_ns) << std::string(policy.name);
  }
}

}  // namespace
}  // namespace castor
