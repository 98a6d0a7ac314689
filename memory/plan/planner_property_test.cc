// Properties of every plan, over random traces and budgets.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <variant>

#include "base/units.h"
#include "memory/plan/plan_checker.h"
#include "memory/plan/planner.h"
#include "memory/plan/simulator.h"
#include "memory/plan/trace_check.h"
#include "memory/plan/trace_generator.h"

namespace castor {
namespace {

struct Case {
  StepTrace trace;
  PlanRequest request;  // `trace` is set by the test
};

rc::Gen<Case> Cases() {
  return rc::gen::resize(
      rc::kNominalSize, rc::gen::exec([] {
        ArbitraryTraceOptions options;
        options.chunks = *rc::gen::inRange(1, 9);
        options.operators = *rc::gen::inRange(0, 16);
        options.micro_batches = *rc::gen::inRange(1, 4);
        options.training =
            *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
        options.equal_sizes = *rc::gen::arbitrary<bool>();
        options.frozen_share = *rc::gen::element(0.0, 0.3, 1.0);
        Case c;
        c.trace = ArbitraryTrace(options, *rc::gen::arbitrary<uint64_t>());
        c.request.device_reserved_bytes = *rc::gen::inRange(0, 3000);
        c.request.host_reserved_bytes = *rc::gen::inRange(0, 3000);
        c.request.bus.h2d_bytes_per_s = *rc::gen::element(1e8, 1e9, 1e10);
        c.request.bus.d2h_bytes_per_s = *rc::gen::element(1e8, 1e9, 1e10);
        c.request.bus.latency_ns = *rc::gen::element(0, 100);
        c.request.prefetch = *rc::gen::arbitrary<bool>();
        c.request.gpu_margin_mem_ratio = *rc::gen::element(0.0, 0.4, 1.0);
        return c;
      }));
}

constexpr PlacementPolicy kPolicies[] = {
    PlacementPolicy::kCuda, PlacementPolicy::kCpu, PlacementPolicy::kAuto};

RC_GTEST_PROP(MakePlan, IsProvenAtAnyBudgetThatIsAdmitted, ()) {
  Case c = *Cases().as("case");
  c.request.trace = &c.trace;
  RC_ASSERT(CheckTrace(c.trace).ok());
  for (const PlacementPolicy policy : kPolicies) {
    const int64_t least = SmallestDeviceBudget(policy, c.request);
    PlanRequest request = c.request;
    request.device_budget_bytes =
        least + *rc::gen::weightedOneOf<int64_t>(
                    {{1, rc::gen::just<int64_t>(0)},
                     {4, rc::gen::inRange<int64_t>(0, 200000)},
                     {4, rc::gen::inRange<int64_t>(0, 20000)}});
    const PlanOrRefusal result = MakePlan(policy, request);
    RC_ASSERT(std::holds_alternative<Plan>(result));
    const absl::Status proof = CheckPlan(std::get<Plan>(result), request);
    if (!proof.ok()) RC_FAIL(proof.ToString());
  }
}

}  // namespace
}  // namespace castor
