// Small plans, derived by hand.
#include "memory/plan/planner/planner.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "base/units.h"
#include "memory/plan/check/plan_checker.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

using Actions = std::vector<std::vector<Action>>;

constexpr Side kHost = Side::kHost;
constexpr Side kDevice = Side::kDevice;

Plan Planned(const PlacementPolicy* policy, const PlanRequest& request) {
  PlanOrRefusal result = MakePlan(policy, request);
  EXPECT_TRUE(std::holds_alternative<Plan>(result));
  return std::holds_alternative<Plan>(result) ? std::get<Plan>(result) : Plan();
}

Refusal Refused(const PlacementPolicy* policy, const PlanRequest& request) {
  PlanOrRefusal result = MakePlan(policy, request);
  EXPECT_TRUE(std::holds_alternative<Refusal>(result));
  return std::holds_alternative<Refusal>(result) ? std::get<Refusal>(result)
                                                 : Refusal();
}

// Chunk 1 is frozen.
StepTrace Training() {
  return TraceBuilder()
      .Chunk(256, 1536)
      .Chunk(256, 0)
      .Read({0}, 100, 1000)   // 0
      .Read({1}, 300, 1000)   // 1
      .Write({0}, 100, 1000)  // 2
      .Reduce(0, 100, 100)    // 3
      .Update(0, 100, 100)    // 4
      .Build();
}

TEST(CudaPolicy, KeepsEverythingOnTheDevice) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  request.device_reserved_bytes = 50;
  // 512 of payload, 1536 of optimizer states, 300 of activations, 50 reserved.
  EXPECT_EQ(SmallestDeviceBudget(FindPolicy("cuda"), request), 2398);
  request.device_budget_bytes = 2398;
  const Plan plan = Planned(FindPolicy("cuda"), request);
  EXPECT_EQ(plan.side, (std::vector<Side>{kDevice, kHost}));
  EXPECT_EQ(plan.initial, (std::vector<ResidentChunk>{{ChunkId(0), true},
                                                      {ChunkId(1), false}}));
  EXPECT_EQ(plan.actions, Actions(6));
}

// The proof is what stands between a planner's mistake and a run.
TEST(MakePlan, PlansOneOperatorAheadWhereThePoliciesPlanFailsItsProof) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  for (const PlacementPolicy& policy : Policies()) {
    request.device_budget_bytes = kUnlimitedBytes;
    for (const int64_t budget :
         {SmallestDeviceBudget(&policy, request), kUnlimitedBytes}) {
      request.device_budget_bytes = budget;
      EXPECT_EQ(Planned(&policy, request).instead_of_unproven, "");
      const PlanOrRefusal made = MakePlan(&policy, request, [](Plan* plan) {
        plan->actions[0].push_back(Fetch(1, 1));
        plan->actions[0].push_back(Fetch(1, 1));
      });
      const Plan* const plan = std::get_if<Plan>(&made);
      ASSERT_NE(plan, nullptr);
      EXPECT_TRUE(CheckPlan(*plan, request).ok());
      EXPECT_EQ(plan->policy, &policy);
      EXPECT_NE(plan->instead_of_unproven.find("chunk 1"), std::string::npos)
          << plan->instead_of_unproven;
    }
  }
}

TEST(CpuPolicy, HoldsOnlyWhatTheOperatorUses) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  request.prefetch = false;
  const Plan plan = Planned(FindPolicy("cpu"), request);
  EXPECT_EQ(plan.side, (std::vector<Side>{kHost, kHost}));
  EXPECT_TRUE(plan.initial.empty());
  EXPECT_EQ(plan.actions, (Actions{{Fetch(0, 0)},
                                   {Drop(0, 1), Fetch(1, 1)},
                                   {Drop(1, 2), Fetch(0, 2)},
                                   {CopyBack(0, 3), Drop(0, 3)},
                                   {},
                                   {}}));
}

TEST(CpuPolicy, HoldsWhatIsUsedAgainBeyondOperatorsWithoutParameters) {
  // A layer's two halves in one chunk, and attention between them.
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Read({0}, 100)
                              .Read({}, 300)
                              .Read({0}, 100)
                              .Read({1}, 100)
                              .Build();
  PlanRequest request = RequestFor(trace);
  request.prefetch = false;
  const Actions once = {
      {Fetch(0, 0)}, {}, {}, {Drop(0, 3), Fetch(1, 3)}, {Drop(1, 0)}};
  request.device_budget_bytes = 256 + 300;
  EXPECT_EQ(Planned(FindPolicy("cpu"), request).actions, once);
  // Without room beside it, attention is alone.
  request.device_budget_bytes = 256 + 299;
  EXPECT_EQ(Planned(FindPolicy("cpu"), request).actions,
            (Actions{{Fetch(0, 0)},
                     {Drop(0, 1)},
                     {Fetch(0, 2)},
                     {Drop(0, 3), Fetch(1, 3)},
                     {Drop(1, 0)}}));
}

TEST(CpuPolicy, FetchesOneArrivalAhead) {
  // Chunk 0 is used twice in a row and stays in between.
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Read({0})
                              .Read({0})
                              .Read({1})
                              .Read({2})
                              .Build();
  PlanRequest request = RequestFor(trace);
  Plan plan = Planned(FindPolicy("cpu"), request);
  EXPECT_EQ(plan.initial, (std::vector<ResidentChunk>{{ChunkId(0), false},
                                                      {ChunkId(1), false}}));
  EXPECT_EQ(plan.actions, (Actions{{},
                                   {},
                                   {Drop(0, 2), Fetch(2, 3)},
                                   {Drop(1, 3), Fetch(0, 0)},
                                   {Drop(2, 0), Fetch(1, 2)}}));
  // Without room for two there is no ahead.
  request.device_budget_bytes = 256;
  plan = Planned(FindPolicy("cpu"), request);
  EXPECT_EQ(plan.actions, (Actions{{},
                                   {},
                                   {Drop(0, 2), Fetch(1, 2)},
                                   {Drop(1, 3), Fetch(2, 3)},
                                   {Drop(2, 0), Fetch(0, 0)}}));
}

TEST(AutoPolicy, MovesNothingWhenEverythingFits) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes =
      SmallestDeviceBudget(FindPolicy("cuda"), request);
  const Plan plan = Planned(FindPolicy("auto"), request);
  EXPECT_EQ(plan.policy, FindPolicy("auto"));
  EXPECT_EQ(plan.side, (std::vector<Side>{kDevice, kHost}));
  EXPECT_EQ(plan.actions, Actions(6));
}

TEST(AutoPolicy, WorksAtTheSmallestBudget) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  // Operator 1: chunk 1 and 300 bytes.
  EXPECT_EQ(SmallestDeviceBudget(FindPolicy("auto"), request), 556);
  EXPECT_EQ(SmallestDeviceBudget(FindPolicy("cpu"), request), 556);
  request.device_budget_bytes = 556;
  const Plan plan = Planned(FindPolicy("auto"), request);
  // Chunk 0 must leave for operator 1. For operator 2 it comes back when the
  // 300 bytes are free; chunk 1 has to leave for operator 2? No: 512 + 100
  // bytes do not fit into 556. After the update there is room, not for 1.
  EXPECT_EQ(plan.actions, (Actions{{},
                                   {Drop(0, 1), Fetch(1, 1)},
                                   {Drop(1, 2), Fetch(0, 2)},
                                   {CopyBack(0, 3), Drop(0, 3)},
                                   {},
                                   {Fetch(0, 0)}}));
  EXPECT_EQ(plan.initial, (std::vector<ResidentChunk>{{ChunkId(0), false}}));
}

TEST(AutoPolicy, KeepsWhatHasRoomAndNeverWritesCleanBack) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes = 812;  // both chunks and 300 bytes
  const Plan plan = Planned(FindPolicy("auto"), request);
  EXPECT_EQ(
      plan.actions,
      (Actions{{}, {}, {}, {CopyBack(0, 3), Drop(0, 3)}, {}, {Fetch(0, 0)}}));
  EXPECT_EQ(plan.initial, (std::vector<ResidentChunk>{{ChunkId(0), false},
                                                      {ChunkId(1), false}}));
}

// Two micro batches of two chunks; states are too large for the device.
StepTrace TwoMicroBatches() {
  return TraceBuilder()
      .MicroBatches(2)
      .Chunk(256, 1 << 20)
      .Chunk(256, 1 << 20)
      .Read({0}, 0, 1000)
      .Read({1}, 0, 1000)
      .Write({1}, 0, 1000)
      .Reduce(1, 100, 100)
      .Write({0}, 0, 1000)
      .Reduce(0, 100, 100)
      .Read({0}, 0, 1000)
      .Read({1}, 0, 1000)
      .Write({1}, 0, 1000)
      .Reduce(1, 100, 100)
      .Write({0}, 0, 1000)
      .Reduce(0, 100, 100)
      .Update(0, 100, 100)
      .Update(1, 100, 100)
      .Build();
}

int64_t Count(const Plan& plan, ActionKind kind) {
  int64_t count = 0;
  for (const auto& actions : plan.actions) {
    for (const Action& action : actions) count += action.kind == kind;
  }
  return count;
}

TEST(AutoPolicy, KeepsPayloadsCleanOverMicroBatchesWhereThereIsRoom) {
  const StepTrace trace = TwoMicroBatches();
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes = 1 << 16;
  const Plan roomy = Planned(FindPolicy("auto"), request);
  EXPECT_EQ(Count(roomy, ActionKind::kMakeGradients), 2);
  EXPECT_EQ(Count(roomy, ActionKind::kSendGradients), 2);
  // Each chunk comes once, after its update.
  EXPECT_EQ(SimulatePlan(roomy, request).h2d_bytes, 512);
  EXPECT_EQ(SimulatePlan(roomy, request).d2h_bytes, 1024);

  // One payload is all that there is room for: gradients take its place.
  request.device_budget_bytes =
      SmallestDeviceBudget(FindPolicy("auto"), request);
  EXPECT_EQ(request.device_budget_bytes, 256);
  const Plan tight = Planned(FindPolicy("auto"), request);
  EXPECT_EQ(Count(tight, ActionKind::kMakeGradients), 0);

  // With room for two the payload that comes next stays beside its gradients.
  request.device_budget_bytes = 512;
  const Plan two = Planned(FindPolicy("auto"), request);
  EXPECT_EQ(Count(two, ActionKind::kMakeGradients), 1);
  EXPECT_EQ(SimulatePlan(two, request).h2d_bytes, 256 * 3);
}

// The two chunks of 16-bit values, whose sums take twice their bytes, over so
// many micro batches on a bus that takes most of the time.
StepTrace SlowMicroBatches(int64_t count) {
  TraceBuilder builder;
  builder.MicroBatches(count);
  for (int c = 0; c < 2; ++c) builder.Chunk(256, 1 << 20, 512);
  for (int64_t m = 0; m < count; ++m) {
    builder.Read({0}, 0, 10).Read({1}, 0, 10);
    builder.Write({1}, 0, 10).Reduce(1, 1, 1);
    builder.Write({0}, 0, 10).Reduce(0, 1, 1);
  }
  return builder.Update(0, 1, 1).Update(1, 1, 1).Build();
}

TEST(AutoPolicy, AddsUpOnTheDeviceWhereThatMovesLess) {
  // Two micro batches move 2 x 256 bytes of gradients a chunk, as a sum does;
  // from three on the sum is less.
  for (const int64_t count : {2, 3, 8}) {
    const StepTrace trace = SlowMicroBatches(count);
    PlanRequest request = RequestFor(trace);
    request.device_budget_bytes = 1 << 16;
    const Plan roomy = Planned(FindPolicy("auto"), request);
    const int64_t sums = count > 2 ? 2 : 0;
    EXPECT_EQ(Count(roomy, ActionKind::kMakeSum), sums);
    EXPECT_EQ(Count(roomy, ActionKind::kSendSum), sums);
    EXPECT_EQ(SimulatePlan(roomy, request).h2d_bytes, 2 * 256);
    EXPECT_EQ(SimulatePlan(roomy, request).d2h_bytes, 2 * 512);
    // Smallest budgets are what they were, and with them plans.
    request.device_budget_bytes =
        SmallestDeviceBudget(FindPolicy("auto"), request);
    EXPECT_EQ(request.device_budget_bytes, 256);
    const Plan tight = Planned(FindPolicy("auto"), request);
    EXPECT_EQ(Count(tight, ActionKind::kMakeSum), 0);
    // Optimizer states, and so sums, may be told to stay on the host.
    request.device_budget_bytes = 1 << 16;
    request.gpu_margin_mem_ratio = 0;
    EXPECT_EQ(Count(Planned(FindPolicy("auto"), request), ActionKind::kMakeSum),
              0);
  }
}

TEST(AutoPolicy, HasTheSumOfOneChunkWhereThereIsRoomForOne) {
  const StepTrace trace = SlowMicroBatches(8);
  PlanRequest request = RequestFor(trace);
  // Both payloads, a sum, and a gradient block of each.
  request.device_budget_bytes = 2 * 256 + 512 + 2 * 256;
  const Plan plan = Planned(FindPolicy("auto"), request);
  EXPECT_EQ(Count(plan, ActionKind::kMakeSum), 1);
  EXPECT_EQ(SimulatePlan(plan, request).d2h_bytes, 512 + 8 * 256);
}

TEST(AutoPolicy, KeepsOptimizerStatesWithinTheirShare) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  // Payloads and activations take 812 at most, optimizer states 1536.
  request.device_budget_bytes = 812 + 2 * 1536;
  request.gpu_margin_mem_ratio = 0.5;
  EXPECT_EQ(Planned(FindPolicy("auto"), request).side[0], kDevice);
  request.gpu_margin_mem_ratio = 0.4;
  EXPECT_EQ(Planned(FindPolicy("auto"), request).side[0], kHost);
  request.gpu_margin_mem_ratio = 0;
  request.device_budget_bytes = kUnlimitedBytes;
  EXPECT_EQ(Planned(FindPolicy("auto"), request).side[0], kHost);
}

TEST(AutoPolicy, PutsOptimizerStatesWhereTheHostHasNoRoom) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  request.host_budget_bytes = 512;  // homes only
  // On the device: 1536, and a chunk with its operator's activations.
  EXPECT_EQ(SmallestDeviceBudget(FindPolicy("auto"), request), 2092);
  request.device_budget_bytes = 2092;
  EXPECT_EQ(Planned(FindPolicy("auto"), request).side[0], kDevice);

  request.device_budget_bytes = 2091;
  const Refusal refusal = Refused(FindPolicy("auto"), request);
  EXPECT_EQ(refusal.tier, "host");
  EXPECT_EQ(refusal.smallest_host_budget_bytes, 2048);
  EXPECT_EQ(refusal.smallest_device_budget_bytes, 2092);
}

TEST(MakePlan, NamesTheWorstMomentWhenItRefuses) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  request.device_reserved_bytes = 20;
  request.device_budget_bytes = 575;
  for (const PlacementPolicy* policy :
       {FindPolicy("cpu"), FindPolicy("auto")}) {
    const Refusal refusal = Refused(policy, request);
    EXPECT_EQ(refusal.tier, "device");
    EXPECT_EQ(refusal.op, "op1");
    EXPECT_EQ(refusal.moment, Moment(1));
    EXPECT_EQ(refusal.peak_bytes, 300);
    EXPECT_EQ(refusal.resident_bytes, 276);
    EXPECT_EQ(refusal.smallest_device_budget_bytes, 576);
    EXPECT_EQ(refusal.smallest_host_budget_bytes, 2048);
  }
  const Refusal refusal = Refused(FindPolicy("cuda"), request);
  EXPECT_EQ(refusal.resident_bytes, 20 + 512 + 1536);
  EXPECT_EQ(refusal.smallest_device_budget_bytes, 2368);
  EXPECT_EQ(refusal.smallest_host_budget_bytes, 512);
}

TEST(MakePlan, RefusesHostThatCannotHoldTheHomes) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  request.host_reserved_bytes = 10;
  request.host_budget_bytes = 521;
  for (const PlacementPolicy* policy :
       {FindPolicy("cuda"), FindPolicy("auto")}) {
    const Refusal refusal = Refused(policy, request);
    EXPECT_EQ(refusal.tier, "host");
    EXPECT_EQ(refusal.smallest_host_budget_bytes, 522);
    EXPECT_EQ(refusal.smallest_device_budget_bytes, kUnlimitedBytes);
  }
  EXPECT_EQ(Refused(FindPolicy("cpu"), request).smallest_host_budget_bytes,
            2058);
}

TEST(MakePlan, AsksForBothBudgetsWhereNeitherMakesUpForTheOther) {
  const StepTrace trace = Training();
  PlanRequest request = RequestFor(trace);
  request.gpu_margin_mem_ratio = 0;  // no states on the device
  request.device_budget_bytes = 500;
  request.host_budget_bytes = 2000;
  const Refusal refusal = Refused(FindPolicy("auto"), request);
  request.host_budget_bytes = kUnlimitedBytes;
  EXPECT_EQ(refusal.tier, "device");
  EXPECT_EQ(refusal.smallest_device_budget_bytes,
            SmallestDeviceBudget(FindPolicy("auto"), request));
  EXPECT_EQ(refusal.smallest_host_budget_bytes, 512 + 1536);
}

TEST(MakePlan, CountsWholeBlocksOfTheHost) {
  const StepTrace trace =
      TraceBuilder().Evaluation().Chunk(100, 0).Chunk(300, 0).Build();
  PlanRequest request = RequestFor(trace);
  request.host_budget_bytes = 256 + 512 - 1;
  EXPECT_EQ(Refused(FindPolicy("cpu"), request).smallest_host_budget_bytes,
            256 + 512);
}

TEST(MakePlan, KeepsDeviceSidePayloadsThroughEvaluation) {
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(256, 1536)
                              .Chunk(256, 1536)
                              .Read({0}, 100)
                              .Read({1}, 300)
                              .Build();
  PlanRequest request = RequestFor(trace);
  request.fixed_side = {kDevice, kHost};
  // 1536 and 256 of chunk 0, 256 of chunk 1, 300.
  EXPECT_EQ(SmallestDeviceBudget(FindPolicy("auto"), request), 2348);
  request.device_budget_bytes = 2348;
  for (const PlacementPolicy* policy :
       {FindPolicy("cpu"), FindPolicy("auto")}) {
    const Plan plan = Planned(policy, request);
    EXPECT_EQ(plan.side, request.fixed_side);
    EXPECT_EQ(plan.initial[0], (ResidentChunk{ChunkId(0), true}));
  }
  request.device_budget_bytes = 2347;
  EXPECT_EQ(Refused(FindPolicy("auto"), request).resident_bytes, 2048);
}

TEST(MakePlan, PlansStepWithoutOperators) {
  const StepTrace trace = TraceBuilder().Evaluation().Chunk(256, 0).Build();
  const PlanRequest request = RequestFor(trace);
  for (const PlacementPolicy& policy : Policies()) {
    EXPECT_EQ(Planned(&policy, request).actions, Actions(1));
  }
}

}  // namespace
}  // namespace castor
