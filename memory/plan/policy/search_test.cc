#include "memory/plan/policy/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <variant>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/policy/close_candidates.h"
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

// Searches for the plan of a request with so many plans, or as many as its step
// is worth.
struct Searched {
  explicit Searched(const PlanRequest& request, int64_t plans = 0)
      : admission(Admit(FindPolicy("auto")->admission, request)),
        task(request),
        search(task, admission),
        worth(search.PlansWorth()) {
    search.Run(plans == 0 ? worth : plans);
  }

  const Admission admission;
  const PlanTask task;
  Search search;
  const int64_t worth;
};

// Searches for plans of such models made up to 1,900 plans, which took longer
// than the whole runs. Steps of operators of 5 us are worth some 150.
TEST(Search, MakesAsManyPlansAsTheStepIsWorth) {
  // A recipe may take more than one plan.
  constexpr int64_t kMore = 3;
  for (const int64_t percent : {0, 10}) {
    const StepTrace brief = SmallModel(5'000);
    const Searched few(RequestFor(brief, percent));
    EXPECT_GT(few.worth, 40) << percent;
    EXPECT_LT(few.worth, 400) << percent;
    EXPECT_GT(few.search.plans(), 12) << percent;
    EXPECT_LE(few.search.plans(), few.worth + kMore) << percent;
  }
  // A model whose operators take a thousand times as long.
  const StepTrace lengthy = SmallModel(5'000'000, /*layers=*/2);
  const Searched many(RequestFor(lengthy, 10));
  EXPECT_EQ(many.worth, PlansFor(/*operators=*/1, /*step_ns=*/1e12));
  EXPECT_GT(many.search.plans(), 100);
  EXPECT_LE(many.search.plans(), many.worth + kMore);
}

// More plans are never worse: a longer search begins as a shorter one does, or
// tries more before it climbs.
TEST(Search, FindsWithEffortWhatASketchDoesNot) {
  const StepTrace trace = SmallModel(5'000'000);
  bool better = false;
  for (const int64_t percent : {2, 10, 30, 60}) {
    const PlanRequest request = RequestFor(trace, percent);
    Searched sketch(request, kSketchPlans);
    Searched whole(request);
    const double sketched_ns = sketch.search.taken().step_ns;
    const double step_ns = whole.search.taken().step_ns;
    EXPECT_LE(step_ns, (1 + kAlike) * sketched_ns) << percent;
    better |= step_ns < sketched_ns;
  }
  EXPECT_TRUE(better);
}

TEST(Search, IsADozenPlansForAStepThatIsOverAtOnce) {
  for (const int64_t operators : {10'000, 1'000'000}) {
    EXPECT_EQ(PlansFor(operators, /*step_ns=*/1e5), kSketchPlans);
  }
  // A step of up to 100 operators gets the most plans all the same: planning it
  // takes no more than a moment.
  const int64_t most = PlansFor(/*operators=*/1, /*step_ns=*/1e12);
  EXPECT_EQ(PlansFor(/*operators=*/100, /*step_ns=*/0), most);
  EXPECT_LT(PlansFor(/*operators=*/101, /*step_ns=*/0), most);
}

// From a tenth of a second on a step gets no more plans.
TEST(Search, OfLongStepsDependsOnTheirOperatorsAlone) {
  int64_t before = PlansFor(/*operators=*/1, /*step_ns=*/1e12);
  for (const int64_t operators : {100, 4'096, 8'192, 16'384, 100'000}) {
    const int64_t plans = PlansFor(
        operators, std::max(128e6, 2'500.0 * static_cast<double>(operators)));
    EXPECT_EQ(plans, PlansFor(operators, 1e12)) << operators;
    EXPECT_LE(plans, before) << operators;
    EXPECT_GE(plans, 40) << operators;
    before = plans;
  }
}

// However short the step is, what fits is the same, and the plan is proven.
TEST(Search, HasNoSayInWhatFits) {
  const StepTrace brief = SmallModel(100, /*layers=*/10);
  const StepTrace lengthy = SmallModel(5'000'000, /*layers=*/10);
  PlanRequest request = RequestFor(brief, 0);
  EXPECT_LT(Searched(request).worth, Searched(RequestFor(lengthy, 0)).worth);
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
