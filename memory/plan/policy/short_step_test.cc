#include "memory/plan/policy/short_step.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <variant>

#include "memory/plan/check/trace_check.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

StepTrace Gpt(int64_t micro_batches, int64_t layers = 2) {
  GptTraceOptions options;
  options.layers = layers;
  options.channels = 64;
  options.vocabulary = 200;
  options.batch = 2;
  options.sequence = 16;
  options.chunk_elements = 16000;
  options.micro_batches = micro_batches;
  return GptTrace(options);
}

TEST(Shorten, KeepsTheFirstASecondAndTheLastMicroBatch) {
  const StepTrace trace = Gpt(6);
  const std::optional<ShortStep> step = Shorten(trace);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->left_out, 3);
  const StepTrace three = Gpt(3);
  EXPECT_EQ(step->trace.ops, three.ops);
  EXPECT_EQ(step->trace.chunks, three.chunks);
  EXPECT_EQ(step->trace.micro_batches, 3);
  EXPECT_TRUE(CheckTrace(step->trace).ok());
  EXPECT_EQ(step->last - step->middle, step->middle);  // each as the first
}

TEST(Shorten, WantsManyMicroBatchesThatAreAlike) {
  EXPECT_FALSE(Shorten(Gpt(1)).has_value());
  EXPECT_FALSE(Shorten(Gpt(3)).has_value());
  StepTrace trace = Gpt(6);
  const int64_t length = Shorten(trace)->middle;
  trace.ops[2 * length + 1].duration_ns += 5;  // as they are measured
  EXPECT_TRUE(Shorten(trace).has_value());
  trace.ops[2 * length + 1].non_model_peak_bytes += 1;
  EXPECT_FALSE(Shorten(trace).has_value());
  EXPECT_FALSE(Shorten(ArbitraryTrace({.chunks = 5, .micro_batches = 8}, 1))
                   .has_value());
}

// A plan of a short step costs the whole one about what its plan costs.
TEST(EstimateWhole, IsNearWhatTheWholeStepTakes) {
  const StepTrace trace = Gpt(12);
  const std::optional<ShortStep> step = Shorten(trace);
  PlanRequest request;
  request.trace = &trace;
  for (const double share : {0.3, 3.0}) {
    request.bus = BusForShare(trace, share);
    request.device_budget_bytes =
        SmallestDeviceBudget(FindPolicy("auto"), request);
    const PlacementPolicy* const cpu = FindPolicy("cpu");
    const PlanCost whole =
        SimulatePlan(std::get<Plan>(MakePlan(cpu, request)), request);
    PlanRequest shorter = request;
    shorter.trace = &step->trace;
    const Plan plan = std::get<Plan>(MakePlan(cpu, shorter));
    const StepEstimate estimate =
        EstimateWhole(*step, plan, shorter, SimulatePlan(plan, shorter));
    EXPECT_NEAR(estimate.step_ns, static_cast<double>(whole.step_ns),
                0.02 * static_cast<double>(whole.step_ns));
    EXPECT_EQ(estimate.h2d_bytes, static_cast<double>(whole.h2d_bytes));
    EXPECT_EQ(estimate.d2h_bytes, static_cast<double>(whole.d2h_bytes));
  }
}

// Steps that are too long for a thorough search: many micro batches, searched
// on a short step, and one of many operators.
TEST(AutoPolicy, PlansLongStepsWell) {
  for (const bool many_micro_batches : {true, false}) {
    const StepTrace trace = many_micro_batches ? Gpt(220) : Gpt(1, 600);
    ASSERT_GT(trace.ops.size(), 16 << 10);
    PlanRequest request;
    request.trace = &trace;
    request.bus = BusForShare(trace, 1.0);
    request.device_budget_bytes =
        SmallestDeviceBudget(FindPolicy("auto"), request) +
        trace.chunks[0].payload_bytes;
    const auto step_ns = [&](const char* policy) {
      const Plan plan = std::get<Plan>(MakePlan(FindPolicy(policy), request));
      EXPECT_EQ(plan.instead_of_unproven, "");
      return SimulatePlan(plan, request).step_ns;
    };
    EXPECT_LT(static_cast<double>(step_ns("auto")),
              0.9 * static_cast<double>(step_ns("cpu")));
  }
}

}  // namespace
}  // namespace castor
