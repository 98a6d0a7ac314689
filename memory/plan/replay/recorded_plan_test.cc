#include "memory/plan/replay/recorded_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <variant>

#include "memory/plan/bounds/lower_bound.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

void ExpectSame(const Plan& a, const Plan& b) {
  RC_ASSERT(a.policy == b.policy);
  RC_ASSERT(a.signature == b.signature);
  RC_ASSERT(a.side == b.side);
  RC_ASSERT(a.initial == b.initial);
  RC_ASSERT(a.actions == b.actions);
}

RC_GTEST_PROP(PlanRecord, GivesBackThePlanAndWhatWasAsked, ()) {
  ArbitraryTraceOptions options;
  options.micro_batches = *rc::gen::inRange(1, 3);
  const StepTrace trace =
      ArbitraryTrace(options, *rc::gen::arbitrary<uint64_t>());
  PlanRequest request;
  request.trace = &trace;
  request.device_reserved_bytes = *rc::gen::inRange(0, 3000);
  request.host_reserved_bytes = *rc::gen::inRange(0, 3000);
  request.bus = {*rc::gen::element(1e8, 1e9), *rc::gen::element(1e8, 1e9),
                 *rc::gen::element(0, 100)};
  request.prefetch = *rc::gen::arbitrary<bool>();
  request.gpu_margin_mem_ratio = *rc::gen::element(0.4, 1.0);
  const PlacementPolicy* const policy =
      &Policies()[*rc::gen::inRange<size_t>(0, Policies().size())];
  if (!policy->admission.keeps_all_payloads && *rc::gen::arbitrary<bool>()) {
    request.fixed_side.assign(trace.chunks.size(), Side::kHost);
    for (size_t c = 0; c < trace.chunks.size(); ++c) {
      if (trace.chunks[c].optimizer_bytes > 0 && *rc::gen::arbitrary<bool>()) {
        request.fixed_side[c] = Side::kDevice;
      }
    }
  }
  request.device_budget_bytes =
      SmallestDeviceBudget(policy, request) + *rc::gen::inRange(0, 20000);
  const PlanOrRefusal made = MakePlan(policy, request);
  RC_PRE(std::holds_alternative<Plan>(made));
  const Plan& plan = std::get<Plan>(made);
  const PlanCost cost = SimulatePlan(plan, request);
  const PlanRecord record =
      RecordPlan(plan, request, cost, /*trace_index=*/3, /*warmup=*/true);

  const auto back = PlanOf(record, trace);
  RC_ASSERT(back.ok());
  ExpectSame(*back, plan);
  const PlanRequest asked = RequestOf(record, &trace);
  const PlanOrRefusal again = MakePlan(policy, asked);
  RC_ASSERT(std::holds_alternative<Plan>(again));
  ExpectSame(std::get<Plan>(again), plan);
  RC_ASSERT(RecordPlan(std::get<Plan>(again), asked,
                       SimulatePlan(std::get<Plan>(again), asked), 3,
                       true) == record);
  RC_ASSERT(record.predicted.least_h2d_bytes <= record.predicted.h2d_bytes);
}

PlanRecord OfTwoChunks() {
  return {.policy = "cpu",
          .device_side = {ChunkId(1)},
          .initial = {ChunkId(0), ChunkId(1)},
          .initial_dirty = {ChunkId(1)},
          .actions = {{Moment(1), ActionKind::kDrop, ChunkId(0), Moment()},
                      {Moment(2), ActionKind::kFetch, ChunkId(0), Moment(0)}},
          .predicted = {}};
}

TEST(PlanOf, PutsEachActionAtItsMoment) {
  const StepTrace trace =
      TraceBuilder().Chunk(1024, 0).Chunk(1024, 9).Read({0}).Read({1}).Build();
  const auto plan = PlanOf(OfTwoChunks(), trace);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->policy, FindPolicy("cpu"));
  EXPECT_EQ(plan->signature, "by hand");
  EXPECT_EQ(plan->side, (std::vector<Side>{Side::kHost, Side::kDevice}));
  EXPECT_EQ(plan->initial, (std::vector<ResidentChunk>{{ChunkId(0), false},
                                                       {ChunkId(1), true}}));
  EXPECT_EQ(plan->actions, (std::vector<std::vector<Action>>{
                               {},
                               {{ActionKind::kDrop, ChunkId(0), Moment()}},
                               {{ActionKind::kFetch, ChunkId(0), Moment(0)}}}));
}

TEST(PlanOf, RefusesWhatTheTraceDoesNotHave) {
  const StepTrace trace =
      TraceBuilder().Chunk(1024, 0).Chunk(1024, 9).Read({0}).Read({1}).Build();
  PlanRecord record = OfTwoChunks();
  record.policy = "gpu";
  EXPECT_EQ(PlanOf(record, trace).status().code(),
            absl::StatusCode::kInvalidArgument);
  record = OfTwoChunks();
  record.actions[1].moment = Moment(3);
  EXPECT_EQ(PlanOf(record, trace).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (auto list : {&PlanRecord::device_side, &PlanRecord::initial,
                    &PlanRecord::initial_dirty}) {
    record = OfTwoChunks();
    (record.*list)[0] = ChunkId(2);
    EXPECT_EQ(PlanOf(record, trace).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  record = OfTwoChunks();
  record.actions[0].chunk = ChunkId(-1);
  EXPECT_EQ(PlanOf(record, trace).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor
