#include "memory/plan/policy/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <variant>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/policy/effort.h"
#include "memory/plan/policy/policies.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

// A model of some 80,000 parameters in 38 chunks, whose operators take
// `operator_ns` each.
StepTrace SmallModel(int64_t operator_ns, int64_t layers = 6) {
  GptTraceOptions options;
  options.layers = layers;
  options.channels = 32;
  options.vocabulary = 256;
  options.batch = 2;
  options.sequence = 16;
  options.micro_batches = 4;
  options.chunk_elements = options.channels * options.channels;
  StepTrace trace = GptTrace(options);
  trace.global_norm = true;
  for (OpRecord& op : trace.ops) {
    op.duration_ns = operator_ns;
    if (op.kind != OpKind::kCompute) op.host_duration_ns = operator_ns;
  }
  return trace;
}

// A budget of so many percent of the way from the smallest to everything, and
// a bus that the step's payloads keep busy.
PlanRequest RequestFor(const StepTrace& trace, int64_t percent) {
  PlanRequest request;
  request.trace = &trace;
  request.bus = BusForShare(trace, 1.0);
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  request.device_budget_bytes = least + (most - least) * percent / 100;
  return request;
}

struct Searched {
  SearchEffort effort;
  int64_t plans = 0;
};

Searched SearchFor(const PlanRequest& request) {
  const Admission admission = Admit(FindPolicy("auto")->admission, request);
  const PlanTask task = {request};
  Search search(task, admission);
  if (!search.effort().sketched) search.Run();
  return {search.effort(), search.plans()};
}

// Searches for plans of such models made up to 1,900 plans, which took longer
// than the whole runs. Steps of operators of 5 us are worth some 150.
TEST(Search, MakesAsManyPlansAsTheStepIsWorth) {
  for (const int64_t percent : {0, 10}) {
    const StepTrace brief = SmallModel(5'000);
    const Searched few = SearchFor(RequestFor(brief, percent));
    EXPECT_FALSE(few.effort.thorough) << percent;
    EXPECT_GE(few.effort.plans, 40) << percent;
    EXPECT_LE(few.effort.plans, 399) << percent;
    EXPECT_GT(few.plans, 12) << percent;
    // A neighbour may take more than one plan.
    EXPECT_LE(few.plans, few.effort.most_plans + 100) << percent;
  }
  // A model whose operators take a thousand times as long.
  const StepTrace lengthy = SmallModel(5'000'000, /*layers=*/2);
  const Searched many = SearchFor(RequestFor(lengthy, 10));
  EXPECT_TRUE(many.effort.thorough);
  EXPECT_EQ(many.effort.plans, 400);
  EXPECT_GT(many.plans, 400);
}

TEST(Search, IsADozenPlansForAStepThatIsOverAtOnce) {
  for (const int64_t operators : {1'001, 10'000, 1'000'000}) {
    const SearchEffort effort = EffortFor(operators, /*step_ns=*/1e5);
    EXPECT_TRUE(effort.sketched);
    EXPECT_EQ(effort.plans, 12);
  }
  // What takes no more than a moment is planned as well as ever.
  EXPECT_TRUE(EffortFor(/*operators=*/100, /*step_ns=*/0).thorough);
  EXPECT_FALSE(EffortFor(/*operators=*/101, /*step_ns=*/0).thorough);
}

// From a tenth of a second on a step gets no more plans: 400 of 4,096 operators
// are what takes a second.
TEST(Search, OfLongStepsDependsOnTheirOperatorsAlone) {
  for (const int64_t operators : {100, 4'096, 4'097, 16'384, 16'385, 100'000}) {
    const SearchEffort effort = EffortFor(
        operators, std::max(103e6, 2'500.0 * static_cast<double>(operators)));
    const SearchEffort longer = EffortFor(operators, 1e12);
    EXPECT_FALSE(effort.sketched) << operators;
    EXPECT_EQ(effort.thorough, operators <= 4'096) << operators;
    EXPECT_EQ(effort.refined, operators <= 16'384) << operators;
    EXPECT_EQ(effort.plans, longer.plans) << operators;
    EXPECT_EQ(effort.few, longer.few) << operators;
    EXPECT_EQ(effort.neighbours, longer.neighbours) << operators;
  }
}

// However short the step is, what fits is the same, and the plan is proven.
TEST(Search, HasNoSayInWhatFits) {
  const StepTrace brief = SmallModel(100, /*layers=*/10);
  const StepTrace lengthy = SmallModel(5'000'000, /*layers=*/10);
  EXPECT_TRUE(SearchFor(RequestFor(brief, 0)).effort.sketched);
  PlanRequest request = RequestFor(brief, 0);
  EXPECT_EQ(request.device_budget_bytes,
            RequestFor(lengthy, 0).device_budget_bytes);
  const PlanOrRefusal made = MakePlan(FindPolicy("auto"), request);
  ASSERT_TRUE(std::holds_alternative<Plan>(made));
  EXPECT_EQ(std::get<Plan>(made).instead_of_unproven, "");
  request.device_budget_bytes -= 1;
  EXPECT_TRUE(
      std::holds_alternative<Refusal>(MakePlan(FindPolicy("auto"), request)));
}

}  // namespace
}  // namespace castor
