// Properties of every plan, over random traces and budgets.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <variant>
#include <vector>

#include "base/units.h"
#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/blocks/offloaded_blocks.h"
#include "memory/plan/bounds/lower_bound.h"
#include "memory/plan/check/plan_checker.h"
#include "memory/plan/check/trace_check.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/planner/speculation.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/block_chain.h"
#include "memory/plan/testing/trace_generator.h"

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
        options.micro_batches = *rc::gen::element(1, 2, 3, 8);
        options.training =
            *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
        options.equal_sizes = *rc::gen::arbitrary<bool>();
        options.frozen_share = *rc::gen::element(0.0, 0.3, 1.0);
        options.activations = *rc::gen::element(0, 0, 1, 4);
        Case c;
        c.trace = ArbitraryTrace(options, *rc::gen::arbitrary<uint64_t>());
        c.trace.global_norm = options.training && *rc::gen::arbitrary<bool>();
        c.request.device_reserved_bytes = *rc::gen::inRange(0, 3000);
        c.request.host_reserved_bytes = *rc::gen::inRange(0, 3000);
        c.request.bus.h2d_bytes_per_s = *rc::gen::element(1e8, 1e9, 1e10);
        c.request.bus.d2h_bytes_per_s = *rc::gen::element(1e8, 1e9, 1e10);
        c.request.bus.latency_ns = *rc::gen::element(0, 100);
        c.request.prefetch = *rc::gen::arbitrary<bool>();
        c.request.gpu_margin_mem_ratio = *rc::gen::element(0.0, 0.4, 1.0);
        c.request.speculation = {
            .host_bytes =
                *rc::gen::element(int64_t{0}, int64_t{30000}, kUnlimitedBytes),
            .miss_rate = *rc::gen::element(0.0, 0.5),
            .least_gain = *rc::gen::element(-1.0, 0.0, 0.01)};
        return c;
      }));
}

RC_GTEST_PROP(MakePlan, IsProvenAtAnyBudgetThatIsAdmitted, ()) {
  Case c = *Cases().as("case");
  c.request.trace = &c.trace;
  RC_ASSERT(CheckTrace(c.trace).ok());
  for (const PlacementPolicy& policy : Policies()) {
    const int64_t least = SmallestDeviceBudget(&policy, c.request);
    PlanRequest request = c.request;
    request.device_budget_bytes =
        least + *rc::gen::weightedOneOf<int64_t>(
                    {{1, rc::gen::just<int64_t>(0)},
                     {4, rc::gen::inRange<int64_t>(0, 200000)},
                     {4, rc::gen::inRange<int64_t>(0, 20000)}});
    const PlanOrRefusal result = MakePlan(&policy, request);
    RC_ASSERT(std::holds_alternative<Plan>(result));
    const absl::Status proof = CheckPlan(std::get<Plan>(result), request);
    if (!proof.ok()) RC_FAIL(proof.ToString());
  }
}

int64_t Budget(int64_t least) {
  return least +
         *rc::gen::weightedOneOf<int64_t>(
             {{1, rc::gen::just<int64_t>(0)},
              {4, rc::gen::resize(rc::kNominalSize,
                                  rc::gen::inRange<int64_t>(0, 200000))},
              {4, rc::gen::resize(rc::kNominalSize,
                                  rc::gen::inRange<int64_t>(0, 20000))}});
}

// So the properties here are those of plans with device sums too.
TEST(MakePlan, HasDeviceSumsInManyArbitraryTraces) {
  int64_t plans = 0, chunks = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 4;
    options.micro_batches = 8;
    const StepTrace trace = ArbitraryTrace(options, seed);
    PlanRequest request;
    request.trace = &trace;
    request.bus.d2h_bytes_per_s = 1e8;
    request.device_budget_bytes =
        SmallestDeviceBudget(FindPolicy("auto"), request) + 30'000;
    const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
    EXPECT_EQ(plan.instead_of_unproven, "");
    int64_t sums = 0;
    for (const auto& actions : plan.actions) {
      for (const Action& action : actions) {
        sums += action.kind == ActionKind::kMakeSum;
      }
    }
    plans += sums > 0;
    chunks += sums;
  }
  std::printf("%d of 40 plans have %d sums on the device\n",
              static_cast<int>(plans), static_cast<int>(chunks));
  EXPECT_GE(plans, 5);
}

// And those of plans with updates before the norm is known.
TEST(MakePlan, SpeculatesInManyArbitraryTraces) {
  int64_t plans = 0, with_sums = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    ArbitraryTraceOptions options;
    options.micro_batches = seed % 2 == 0 ? 1 : 8;
    StepTrace trace = ArbitraryTrace(options, seed);
    trace.global_norm = true;
    PlanRequest request;
    request.trace = &trace;
    request.bus.d2h_bytes_per_s = 1e8;
    request.speculation.host_bytes = kUnlimitedBytes;
    request.device_budget_bytes =
        SmallestDeviceBudget(FindPolicy("auto"), request) + 30'000;
    const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
    EXPECT_EQ(plan.instead_of_unproven, "");
    if (NumSpeculativeUpdates(plan) == 0) continue;
    ++plans;
    for (const auto& actions : plan.actions) {
      for (const Action& action : actions) {
        with_sums += action.kind == ActionKind::kSendSum;
      }
    }
  }
  std::printf(
      "%d of 100 plans have speculative updates, with %d sums on the device\n",
      static_cast<int>(plans), static_cast<int>(with_sums));
  EXPECT_GE(plans, 5);
  EXPECT_GE(with_sums, 1);
}

RC_GTEST_PROP(SmallestDeviceBudget, IsExact, ()) {
  Case c = *Cases().as("case");
  c.request.trace = &c.trace;
  // Down to where the host cannot hold the optimizer states, or the homes.
  c.request.host_budget_bytes =
      *rc::gen::element(int64_t{100000}, int64_t{10000}, kUnlimitedBytes);
  for (const PlacementPolicy& policy : Policies()) {
    const int64_t least = SmallestDeviceBudget(&policy, c.request);
    if (least < kUnlimitedBytes) {
      c.request.device_budget_bytes = least;
      RC_ASSERT(std::holds_alternative<Plan>(MakePlan(&policy, c.request)));
    }
    if (least == 0) continue;
    c.request.device_budget_bytes = least - 1;
    const PlanOrRefusal result = MakePlan(&policy, c.request);
    RC_ASSERT(std::holds_alternative<Refusal>(result));
    const Refusal& refusal = std::get<Refusal>(result);
    if (refusal.tier == "device") {
      // The refusal names the worst moment, and the budget that would do.
      if (least < kUnlimitedBytes) {
        RC_ASSERT(refusal.smallest_device_budget_bytes == least);
      }
      RC_ASSERT(refusal.peak_bytes + refusal.resident_bytes <=
                refusal.smallest_device_budget_bytes);
      if (refusal.moment.valid()) {
        const OpRecord& op = c.trace.ops[refusal.moment.value];
        RC_ASSERT(refusal.op == op.name);
        RC_ASSERT(refusal.peak_bytes == op.non_model_peak_bytes);
      }
    } else {
      RC_ASSERT(refusal.tier == "host");
      RC_ASSERT(refusal.smallest_host_budget_bytes >
                c.request.host_budget_bytes);
      c.request.host_budget_bytes = refusal.smallest_host_budget_bytes;
      RC_ASSERT(std::holds_alternative<Plan>(MakePlan(&policy, c.request)));
      c.request.host_budget_bytes -= 1;
      RC_ASSERT(std::holds_alternative<Refusal>(MakePlan(&policy, c.request)));
    }
  }
}

RC_GTEST_PROP(AutoPolicy, IsNeverSlowerThanCpuAndFitsWhereverItFits, ()) {
  Case c = *Cases().as("case");
  c.request.trace = &c.trace;
  const int64_t least = SmallestDeviceBudget(FindPolicy("cpu"), c.request);
  RC_ASSERT(SmallestDeviceBudget(FindPolicy("auto"), c.request) == least);
  c.request.device_budget_bytes = Budget(least);
  c.request.speculation = {};  // comes on top of what the policies decide
  const Plan cpu = std::get<Plan>(MakePlan(FindPolicy("cpu"), c.request));
  const Plan chosen = std::get<Plan>(MakePlan(FindPolicy("auto"), c.request));
  // Where all fits the plan is to move nothing, even if the host's cores could
  // have helped with updates.
  const bool all_fits =
      c.trace.training && SmallestDeviceBudget(FindPolicy("cuda"), c.request) <=
                              c.request.device_budget_bytes;
  int64_t actions = 0;
  for (const auto& at_moment : chosen.actions) {
    for (const Action& action : at_moment) {
      // Activations begin and end wherever they are.
      actions += !c.trace.chunks[action.chunk.value].holds_activations() ||
                 RowOf(action.kind).direction() == CopyDirection::kToHost;
    }
  }
  if (all_fits && c.request.gpu_margin_mem_ratio == 1) RC_ASSERT(actions == 0);
  if (all_fits && actions == 0) return;
  RC_ASSERT(SimulatePlan(chosen, c.request).step_ns <=
            SimulatePlan(cpu, c.request).step_ns);
}

RC_GTEST_PROP(MakePlan, FetchesNoLessThanTheBoundAndWithinTheBudget, ()) {
  Case c = *Cases().as("case");
  c.request.trace = &c.trace;
  for (const PlacementPolicy& policy : Policies()) {
    PlanRequest request = c.request;
    request.device_budget_bytes =
        Budget(SmallestDeviceBudget(&policy, c.request));
    const Plan plan = std::get<Plan>(MakePlan(&policy, request));
    const PlanCost cost = SimulatePlan(plan, request);
    if (!policy.admission.keeps_all_payloads) {
      RC_ASSERT(cost.h2d_bytes >= LeastFetchedBytes(request, plan.side));
    }
    RC_ASSERT(cost.device_peak_bytes <= request.device_budget_bytes);
    RC_ASSERT(cost.stall_ns >= 0);
    if (policy.admission.keeps_all_payloads) RC_ASSERT(cost.h2d_bytes == 0);
  }
}

RC_GTEST_PROP(MakePlan, GivesTheSamePlanAgain, ()) {
  Case c = *Cases().as("case");
  c.request.trace = &c.trace;
  c.request.device_budget_bytes =
      Budget(SmallestDeviceBudget(FindPolicy("auto"), c.request));
  const Plan a = std::get<Plan>(MakePlan(FindPolicy("auto"), c.request));
  const Plan b = std::get<Plan>(MakePlan(FindPolicy("auto"), c.request));
  RC_ASSERT(a.side == b.side);
  RC_ASSERT(a.initial == b.initial);
  RC_ASSERT(a.actions == b.actions);
}

// Updates before the norm is known come on top of a plan, never in the way of
// one.
RC_GTEST_PROP(MakePlan, SpeculatesOnlyWhereThatPaysAndFits, ()) {
  Case c = *Cases().as("case");
  c.request.trace = &c.trace;
  const PlacementPolicy& policy =
      Policies()[*rc::gen::inRange<size_t>(0, Policies().size())];
  c.request.device_budget_bytes =
      Budget(SmallestDeviceBudget(&policy, c.request));
  const Plan plan = std::get<Plan>(MakePlan(&policy, c.request));
  PlanRequest without = c.request;
  without.speculation = {};
  const Plan plain = std::get<Plan>(MakePlan(&policy, without));
  RC_ASSERT(plain.actions == WithoutSpeculation(plan).actions);
  RC_ASSERT(plain.side == plan.side);
  const int64_t updates = NumSpeculativeUpdates(plan);
  if (updates == 0) return;
  const PlanCost cost = SimulatePlan(plan, c.request);
  RC_ASSERT(cost.host_bytes <= c.request.speculation.host_bytes);
  if (c.request.speculation.least_gain < 0) return;
  if (c.request.speculation.miss_rate > 0) return;
  const int64_t plain_ns = SimulatePlan(plain, without).step_ns;
  RC_ASSERT(cost.step_ns < plain_ns);
}

// The sides of a training plan, or any others, in evaluation.
RC_GTEST_PROP(MakePlan, KeepsFixedSides, ()) {
  Case c = *Cases().as("case");
  c.request.trace = &c.trace;
  for (const ChunkInfo& chunk : c.trace.chunks) {
    const bool device =
        chunk.optimizer_bytes > 0 && *rc::gen::arbitrary<bool>();
    c.request.fixed_side.push_back(device ? Side::kDevice : Side::kHost);
  }
  for (const PlacementPolicy& policy : Policies()) {
    if (policy.admission.keeps_all_payloads) continue;
    const int64_t least = SmallestDeviceBudget(&policy, c.request);
    PlanRequest request = c.request;
    request.device_budget_bytes = Budget(least);
    const Plan plan = std::get<Plan>(MakePlan(&policy, request));
    RC_ASSERT(plan.side == request.fixed_side);
    RC_ASSERT(CheckPlan(plan, request).ok());
    request.device_budget_bytes = least - 1;
    RC_ASSERT(std::holds_alternative<Refusal>(MakePlan(&policy, request)));
  }
}

// A chain of blocks, each of which is kept, made again or may leave.
Case OfBlocks() {
  std::vector<BlockSizes> sizes(*rc::gen::inRange<size_t>(1, 7));
  const bool alike = *rc::gen::arbitrary<bool>();
  for (BlockSizes& block : sizes) {
    if (alike && &block != &sizes[0]) {
      block = sizes[0];
      continue;
    }
    block = {.payload_bytes = *rc::gen::inRange(1, 20) * kChainUnit,
             .made_bytes = {*rc::gen::inRange(0, 10) * kChainUnit,
                            *rc::gen::inRange(0, 10) * kChainUnit},
             .operator_ns = *rc::gen::inRange(0, 9000)};
  }
  const auto some = [&] {
    std::vector<bool> blocks;
    for (size_t i = 0; i < sizes.size(); ++i) {
      blocks.push_back(*rc::gen::arbitrary<bool>());
    }
    return blocks;
  };
  Case c = *Cases().as("request");
  const KeptBlocks kept = some();
  c.trace = WithOffloadedBlocks(WithKeptBlocks(ChainOf(sizes), kept), some());
  c.trace.global_norm = *rc::gen::arbitrary<bool>();
  return c;
}

// A step takes as long as its operators, and as the busiest resource works.
int64_t LeastStepNs(const StepTrace& trace, const PlanCost& cost) {
  return std::max(trace.compute_ns(),
                  *std::max_element(cost.busy_ns.begin(), cost.busy_ns.end()));
}

// With every choice of blocks.
RC_GTEST_PROP(MakePlan, IsProvenWhateverBlocksDo, ()) {
  Case c = OfBlocks();
  c.request.trace = &c.trace;
  RC_ASSERT(CheckTrace(c.trace).ok());
  for (const PlacementPolicy& policy : Policies()) {
    PlanRequest request = c.request;
    request.device_budget_bytes =
        Budget(SmallestDeviceBudget(&policy, c.request));
    const Plan plan = std::get<Plan>(MakePlan(&policy, request));
    RC_ASSERT(plan.instead_of_unproven.empty());
    const absl::Status proof = CheckPlan(plan, request);
    if (!proof.ok()) RC_FAIL(proof.ToString());
    const PlanCost cost = SimulatePlan(plan, request);
    RC_ASSERT(cost.device_peak_bytes <= request.device_budget_bytes);
    RC_ASSERT(cost.step_ns >= LeastStepNs(c.trace, cost));
    if (!policy.admission.keeps_all_payloads) {
      RC_ASSERT(cost.h2d_bytes >= LeastFetchedBytes(request, plan.side));
    }
    if (policy.sketch == nullptr) continue;
    const std::optional<Plan> sketch = SketchPlan(&policy, request);
    RC_ASSERT(sketch.has_value());
    const absl::Status sketch_proof = CheckPlan(*sketch, request);
    if (!sketch_proof.ok()) RC_FAIL(sketch_proof.ToString());
  }
}

// The planner's own choice.
RC_GTEST_PROP(ChooseKeptBlocks, IsProvenAndNoSlowerThanWhatIsAtHand, ()) {
  Case c = OfBlocks();
  c.request.speculation = {};
  const StepTrace none = WithKeptBlocks(c.trace, KeptBlocks());
  PlanRequest request = c.request;
  request.trace = &none;
  const PlacementPolicy* const policy = DefaultPolicy();
  request.device_budget_bytes = Budget(SmallestDeviceBudget(policy, request));
  const BlockChoiceOrRefusal choice =
      ChooseKeptBlocks(policy, c.trace, [&](const StepTrace& trace) {
        PlanRequest asked = request;
        asked.trace = &trace;
        return asked;
      });
  RC_ASSERT(std::holds_alternative<BlockChoice>(choice));
  const BlockChoice& chosen = std::get<BlockChoice>(choice);
  for (const KeptBlocks& kept : {KeptBlocks(), AllBlocks(c.trace)}) {
    const StepTrace trace = WithKeptBlocks(c.trace, kept);
    request.trace = &trace;
    const PlanOrRefusal fixed = MakePlan(policy, request);
    if (std::holds_alternative<Refusal>(fixed)) continue;
    RC_ASSERT(chosen.cost.step_ns <=
              SimulatePlan(std::get<Plan>(fixed), request).step_ns);
  }
  request.trace = &chosen.trace;
  const absl::Status proof = CheckPlan(chosen.plan, request);
  if (!proof.ok()) RC_FAIL(proof.ToString());
  RC_ASSERT(chosen.cost.device_peak_bytes <= request.device_budget_bytes);
  RC_ASSERT(chosen.cost.step_ns >= LeastStepNs(chosen.trace, chosen.cost));
}

}  // namespace
}  // namespace castor
