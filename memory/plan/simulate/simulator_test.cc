// Timelines by hand: chunks of 1024 bytes take 1000 ns on the bus.
#include "memory/plan/simulate/simulator.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "memory/plan/check/plan_checker.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

PlanCost Simulate(const StepTrace& trace, int64_t budget,
                  std::vector<ResidentChunk> initial,
                  std::vector<std::vector<Action>> actions,
                  std::vector<int64_t> on_device = {},
                  const Overheads& overheads = {}) {
  PlanRequest request;
  request.trace = &trace;
  request.device_budget_bytes = budget;
  request.bus = {1.024e9, 1.024e9, 0};
  Plan plan;
  plan.signature = trace.signature;
  plan.side.assign(trace.chunks.size(), Side::kHost);
  for (const int64_t c : on_device) plan.side[c] = Side::kDevice;
  plan.initial = std::move(initial);
  plan.actions = std::move(actions);
  EXPECT_TRUE(CheckPlan(plan, request).ok()) << CheckPlan(plan, request);
  return SimulatePlan(plan, request, overheads);
}

// Two frozen chunks, one operator of 1000 ns each.
StepTrace TwoReads() {
  return TraceBuilder()
      .Evaluation()
      .Chunk(1024, 0)
      .Chunk(1024, 0)
      .Read({0}, 0, 1000)
      .Read({1}, 0, 1000)
      .Build();
}

TEST(SimulatePlan, AddsUpOperatorsThatWaitForNothing) {
  const PlanCost cost =
      Simulate(TwoReads(), 4096, {{ChunkId(0), false}, {ChunkId(1), false}},
               {{}, {}, {}});
  EXPECT_EQ(cost.step_ns, 2000);
  EXPECT_EQ(cost.stall_ns, 0);
  EXPECT_EQ(cost.h2d_bytes, 0);
  EXPECT_EQ(cost.d2h_bytes, 0);
  EXPECT_EQ(cost.device_bytes, (std::vector<int64_t>{2048, 2048}));
  EXPECT_EQ(cost.device_peak_bytes, 2048);
  EXPECT_EQ(cost.host_bytes, 2048);
}

TEST(SimulatePlan, StallsWhereRoomIsFreeOnlyAfterTheLastUse) {
  // op0 0-1000, fetch 1 1000-2000, op1 2000-3000, fetch 0 3000-4000.
  const PlanCost cost =
      Simulate(TwoReads(), 1024, {{ChunkId(0), false}},
               {{}, {Drop(0, 1), Fetch(1, 1)}, {Drop(1, 0), Fetch(0, 0)}});
  EXPECT_EQ(cost.step_ns, 4000);
  EXPECT_EQ(cost.stall_ns, 2000);
  EXPECT_EQ(cost.h2d_bytes, 2048);
  EXPECT_EQ(cost.device_peak_bytes, 1024);
}

TEST(SimulatePlan, HidesCopiesBehindOperators) {
  // Fetch 1 beside op0, fetch 0 beside op1.
  const PlanCost cost =
      Simulate(TwoReads(), 2048, {{ChunkId(0), false}},
               {{Fetch(1, 1)}, {Drop(0, 1), Fetch(0, 0)}, {Drop(1, 0)}});
  EXPECT_EQ(cost.step_ns, 2000);
  EXPECT_EQ(cost.stall_ns, 0);
  EXPECT_EQ(cost.h2d_bytes, 2048);
}

// Two micro batches whose operators take 1000 ns each, the host 500 ns.
StepTrace TwoMicroBatches() {
  return TraceBuilder()
      .MicroBatches(2)
      .Chunk(1024, 4096)
      .Read({0}, 0, 1000)   // 0
      .Write({0}, 0, 1000)  // 1
      .Reduce(0, 500)       // 2
      .Read({0}, 0, 1000)   // 3
      .Write({0}, 0, 1000)  // 4
      .Reduce(0, 500)       // 5
      .Update(0, 500)       // 6
      .Build();
}

TEST(SimulatePlan, LetsDeviceGoOnBesideGradientsOnTheirWayHome) {
  const PlanCost beside =
      Simulate(TwoMicroBatches(), 2048, {{ChunkId(0), false}},
               {{},
                {MakeGradients(0, 1)},
                {SendGradients(0, 2), DropGradients(0)},
                {},
                {},
                {CopyBack(0, 5), Drop(0, 5)},
                {},
                {Fetch(0, 0)}});
  // The gradients leave at 2000-3000 and are reduced until 3500, under the
  // second micro batch. Its own leave at 4000-5000, reduce and update end at
  // 6000, then the fetch takes until 7000.
  EXPECT_EQ(beside.step_ns, 7000);
  // Four operators, a fetch, two copies back, two reduces and an update.
  EXPECT_EQ(beside.busy_ns,
            (std::array<int64_t, kNumResources>{4000, 1000, 2000, 1500, 0}));
  EXPECT_EQ(beside.Busiest(), Resource::kCompute);
  EXPECT_EQ(beside.h2d_bytes, 1024);
  EXPECT_EQ(beside.d2h_bytes, 2048);
  EXPECT_EQ(beside.device_bytes,
            (std::vector<int64_t>{1024, 2048, 1024, 1024, 1024, 0, 0}));
  // In the payload's place they leave until 3000, are reduced until 3500, and
  // the fetch of the parameters takes until 4500: 2500 more.
  const PlanCost in_place =
      Simulate(TwoMicroBatches(), 2048, {{ChunkId(0), false}},
               {{},
                {},
                {CopyBack(0, 2), Drop(0, 2)},
                {Fetch(0, 3)},
                {},
                {CopyBack(0, 5), Drop(0, 5)},
                {},
                {Fetch(0, 0)}});
  EXPECT_EQ(in_place.step_ns, 9500);
  EXPECT_EQ(in_place.h2d_bytes, 2048);
  EXPECT_EQ(in_place.d2h_bytes, 2048);
}

TEST(SimulatePlan, AddsUpOnTheDeviceAndSendsTheSumOnce) {
  StepTrace trace = TwoMicroBatches();
  trace.chunks[0].sum_bytes = 2048;
  for (OpRecord& op : trace.ops) {
    if (op.kind == OpKind::kReduce) op.duration_ns = 100;
  }
  const std::vector<std::vector<Action>> actions = {
      {},
      {MakeGradients(0, 1)},
      {MakeSum(0, 2)},
      {DropGradients(0)},
      {},
      {},
      {Drop(0, 6), SendSum(0, 5), DropSum(0)},
      {Fetch(0, 0)}};
  const PlanCost cost = Simulate(trace, 4096, {{ChunkId(0), false}}, actions);
  // Four operators and two reduces until 4200, the sum leaves until 6200, the
  // update ends at 6700, the fetch at 7700.
  EXPECT_EQ(cost.step_ns, 7700);
  EXPECT_EQ(cost.busy_ns,
            (std::array<int64_t, kNumResources>{4200, 1000, 2000, 500, 0}));
  EXPECT_EQ(cost.h2d_bytes, 1024);
  EXPECT_EQ(cost.d2h_bytes, 2048);
  EXPECT_EQ(cost.device_bytes,
            (std::vector<int64_t>{1024, 2048, 4096, 3072, 3072, 3072, 0}));
  // With a norm to find the host squares the sum first, for 500 ns.
  trace.global_norm = true;
  EXPECT_EQ(Simulate(trace, 4096, {{ChunkId(0), false}}, actions).step_ns,
            8200);
}

TEST(SimulatePlan, WaitsForTheRoomOfGradientBlock) {
  // The block takes the room that another chunk leaves dirty at 2000-3000, so
  // the operator that writes it starts at 3000.
  const StepTrace trace = TraceBuilder()
                              .MicroBatches(2)
                              .Chunk(1024, 4096)
                              .Chunk(1024, 4096)
                              .Read({0}, 0, 1000)   // 0
                              .Write({1}, 0, 1000)  // 1
                              .Reduce(1, 0)         // 2
                              .Write({0}, 0, 1000)  // 3
                              .Reduce(0, 0)         // 4
                              .Write({0}, 0, 1000)  // 5
                              .Reduce(0, 0)         // 6
                              .Update(0, 0)         // 7
                              .Update(1, 0)         // 8
                              .Build();
  const PlanCost cost =
      Simulate(trace, 2048, {{ChunkId(0), false}, {ChunkId(1), false}},
               {{},
                {},
                {CopyBack(1, 2), Drop(1, 2)},
                {MakeGradients(0, 3)},
                {SendGradients(0, 4), DropGradients(0)},
                {},
                {CopyBack(0, 6), Drop(0, 6)},
                {},
                {},
                {Fetch(0, 0), Fetch(1, 1)}});
  EXPECT_EQ(cost.op_start_ns[3] - cost.op_start_ns[1], 2000);
}

TEST(SimulatePlan, FetchesParametersOnlyAfterTheHostsUpdate) {
  const StepTrace trace = TraceBuilder()
                              .Chunk(1024, 4096)
                              .Read({0}, 0, 1000)
                              .Write({0}, 0, 1000)
                              .Reduce(0, 300, 50)
                              .Update(0, 700, 50)
                              .Build();
  // Operators 0-2000, copy back 2000-3000, reduce until 3300, update until
  // 4000, fetch 4000-5000. The device's durations do not count.
  const PlanCost cost =
      Simulate(trace, 4096, {{ChunkId(0), false}},
               {{}, {}, {CopyBack(0, 2), Drop(0, 2)}, {}, {Fetch(0, 0)}});
  EXPECT_EQ(cost.step_ns, 5000);
  EXPECT_EQ(cost.stall_ns, 3000);
  EXPECT_EQ(cost.h2d_bytes, 1024);
  EXPECT_EQ(cost.d2h_bytes, 1024);
  EXPECT_EQ(cost.host_bytes, 5120);
}

// Chunk 1 is frozen.
StepTrace WriteThenRead() {
  return TraceBuilder()
      .Chunk(1024, 4096)
      .Chunk(1024, 0)
      .Write({0}, 0, 1000)
      .Read({1}, 0, 1000)
      .Reduce(0)
      .Update(0)
      .Build();
}

TEST(SimulatePlan, WaitsForTheCopyBackWhoseRoomItTakes) {
  // Copy back 1000-2000, fetch 1 2000-3000, op1 3000-4000, fetch 0 4000-5000.
  const PlanCost cost = Simulate(WriteThenRead(), 1024, {{ChunkId(0), false}},
                                 {{},
                                  {CopyBack(0, 2), Drop(0, 2), Fetch(1, 1)},
                                  {},
                                  {},
                                  {Drop(1, 0), Fetch(0, 0)}});
  EXPECT_EQ(cost.step_ns, 5000);
  EXPECT_EQ(cost.stall_ns, 3000);
}

TEST(SimulatePlan, TakesReadyRoomFirst) {
  // As above, but fetch 1 has other room: 0-1000. Fetch 0 after the copy back:
  // op1 1000-2000, copy back 1000-2000, fetch 0 2000-3000.
  const PlanCost cost = Simulate(WriteThenRead(), 2048, {{ChunkId(0), false}},
                                 {{},
                                  {CopyBack(0, 2), Drop(0, 2), Fetch(1, 1)},
                                  {},
                                  {},
                                  {Drop(1, 0), Fetch(0, 0)}});
  EXPECT_EQ(cost.step_ns, 3000);
  EXPECT_EQ(cost.stall_ns, 1000);
}

TEST(SimulatePlan, LetsActivationsWaitForRoomToo) {
  const StepTrace trace = TraceBuilder()
                              .Chunk(1024, 4096)
                              .Write({0}, 0, 1000)
                              .Read({}, 1024, 1000)
                              .Reduce(0)
                              .Update(0)
                              .Build();
  // Copy back 1000-2000, op1 2000-3000, fetch 0 3000-4000.
  const PlanCost cost =
      Simulate(trace, 1024, {{ChunkId(0), false}},
               {{}, {CopyBack(0, 2), Drop(0, 2)}, {}, {}, {Fetch(0, 0)}});
  EXPECT_EQ(cost.step_ns, 4000);
  EXPECT_EQ(cost.stall_ns, 2000);
  EXPECT_EQ(cost.device_bytes, (std::vector<int64_t>{1024, 1024, 0, 0}));
}

// Chunk 0 on the host's side, chunk 1 on the device's.
StepTrace UpdatesOnBothSides() {
  return TraceBuilder()
      .Chunk(1024, 4096)
      .Chunk(1024, 4096)
      .Write({0}, 0, 1000)
      .Reduce(0, /*host_ns=*/5000)
      .Write({1}, 0, 1000)
      .Reduce(1, /*host_ns=*/0, /*ns=*/100)
      .Update(0, /*host_ns=*/700)
      .Update(1, /*host_ns=*/0, /*ns=*/50)
      .Build();
}

PlanCost SimulateUpdatesOnBothSides(bool global_norm) {
  StepTrace trace = UpdatesOnBothSides();
  trace.global_norm = global_norm;
  return Simulate(
      trace, 8192, {{ChunkId(0), false}, {ChunkId(1), true}},
      {{}, {CopyBack(0, 1), Drop(0, 1)}, {}, {}, {}, {Fetch(0, 0)}, {}},
      /*on_device=*/{1});
}

TEST(SimulatePlan, UpdatesEachSideByItselfWithoutANorm) {
  // op0 0-1000, op2 1000-2000, device's reduce until 2100 and update until
  // 2150; copy back 1000-2000, host's reduce until 7000 and update until 7700,
  // fetch 7700-8700.
  const PlanCost cost = SimulateUpdatesOnBothSides(/*global_norm=*/false);
  EXPECT_EQ(cost.op_start_ns,
            (std::vector<int64_t>{0, 1000, 1000, 2000, 2100, 2100}));
  EXPECT_EQ(cost.step_ns, 8700);
  EXPECT_EQ(cost.stall_ns, 6550);
}

TEST(SimulatePlan, UpdatesNothingBeforeTheNormOfBothSides) {
  // As above, but the device's update waits for the host's reduce.
  const PlanCost cost = SimulateUpdatesOnBothSides(/*global_norm=*/true);
  EXPECT_EQ(cost.op_start_ns,
            (std::vector<int64_t>{0, 1000, 1000, 2000, 2100, 7000}));
  EXPECT_EQ(cost.step_ns, 8700);
  EXPECT_EQ(cost.stall_ns, 6550);
}

TEST(SimulatePlan, LetsTheNormWaitForTheDevicesReduceToo) {
  // Both sides' work on the host is short: update(0) after the device's reduce
  // at 4000, not at 2000 when its own is over.
  StepTrace trace = UpdatesOnBothSides();
  trace.global_norm = true;
  trace.ops[1].host_duration_ns = 0;
  trace.ops[2].duration_ns = 2900;
  const PlanCost cost = Simulate(
      trace, 8192, {{ChunkId(0), false}, {ChunkId(1), true}},
      {{}, {CopyBack(0, 1), Drop(0, 1)}, {}, {}, {}, {Fetch(0, 0)}, {}},
      /*on_device=*/{1});
  // Update 4000-4700, fetch 4700-5700.
  EXPECT_EQ(cost.op_start_ns.back(), 4000);
  EXPECT_EQ(cost.step_ns, 5700);
}

TEST(SimulatePlan, UpdatesOnTheHostWhileTheScaleWaitsForTheBus) {
  // In a step of the steady state the fetch of chunk 0 goes on until 950, that
  // of chunk 2 until 10950; copy back 2000-3000, host's reduce until 8000 and
  // its update until 8700. The scale is on the device at 10950, and the next
  // step begins after the device's update, at 11000.
  StepTrace trace = TraceBuilder()
                        .Chunk(1024, 4096)
                        .Chunk(1024, 4096)
                        .Chunk(10240, 0)
                        .Read({2}, 0, 1000)
                        .Write({0}, 0, 1000)
                        .Reduce(0, /*host_ns=*/5000)
                        .Write({1}, 0, 1000)
                        .Reduce(1, /*host_ns=*/0, /*ns=*/100)
                        .Update(0, /*host_ns=*/700)
                        .Update(1, /*host_ns=*/0, /*ns=*/50)
                        .Build();
  trace.global_norm = true;
  const PlanCost cost =
      Simulate(trace, 1 << 16,
               {{ChunkId(0), false}, {ChunkId(1), true}, {ChunkId(2), false}},
               {{},
                {Drop(2, 1)},
                {CopyBack(0, 1), Drop(0, 1)},
                {},
                {Fetch(2, 0)},
                {},
                {Fetch(0, 1)},
                {}},
               /*on_device=*/{1});
  EXPECT_EQ(cost.op_start_ns.back(), 10950);
  EXPECT_EQ(cost.step_ns, 11000);
}

TEST(SimulatePlan, QueuesAStepBesideTheCopiesBackOfTheOneBefore) {
  const StepTrace trace = TraceBuilder()
                              .Chunk(4096, 4096)
                              .Chunk(1024, 0)
                              .Read({1}, 0, 10000)
                              .Write({0}, 0, 1000)
                              .Reduce(0)
                              .Update(0)
                              .Build();
  // op0 0-10000, and the loss is there; fetch 0 0-4000, op1 10000-11000, copy
  // back 11000-15000. op0 of the next step at 11000, not at 15000, which is
  // over when fetch 0, 15000-19000, is.
  const PlanCost cost =
      Simulate(trace, 16384, {{ChunkId(1), false}},
               {{}, {Fetch(0, 1)}, {CopyBack(0, 2), Drop(0, 2)}, {}, {}});
  EXPECT_EQ(cost.op_start_ns, (std::vector<int64_t>{0, 10000, 11000, 11000}));
  EXPECT_EQ(cost.step_ns, 11000);
  EXPECT_EQ(cost.stall_ns, 0);
}

TEST(SimulatePlan, TakesTheLowestRoomWhereAllOfItHasToBeWaitedFor) {
  // A step is queued as a whole: when chunk 2 takes room, that of chunk 0, free
  // from 2000, is the lower one, though that of chunk 1 is free from 1000.
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(1024, 0)
                              .Chunk(1024, 0)
                              .Chunk(1024, 0)
                              .Read({1}, 0, 1000)
                              .Read({0}, 0, 1000)
                              .Read({2}, 0, 1000)
                              .Build();
  // op0 0-1000, op1 1000-2000, fetch 2 2000-3000, op2 3000-4000, fetch 0
  // 4000-5000, fetch 1 5000-6000.
  const PlanCost cost =
      Simulate(trace, 2048, {{ChunkId(0), false}, {ChunkId(1), false}},
               {{},
                {Drop(1, 2)},
                {Drop(0, 2), Fetch(2, 2)},
                {Drop(2, 0), Fetch(0, 1), Fetch(1, 0)}});
  EXPECT_EQ(cost.op_start_ns, (std::vector<int64_t>{0, 1000, 3000}));
  EXPECT_EQ(cost.step_ns, 6000);
}

TEST(SimulatePlan, AddsTheMovesOfBlocksThatWereMeasured) {
  const std::vector<ResidentChunk> both = {{ChunkId(0), false},
                                           {ChunkId(1), false}};
  const PlanCost cost = Simulate(TwoReads(), 4096, both, {{}, {}, {}}, {},
                                 {.moves = {{}, {.duration_ns = 300}}});
  EXPECT_EQ(cost.op_start_ns, (std::vector<int64_t>{0, 1300}));
  EXPECT_EQ(cost.step_ns, 2300);
  // Fetch 0 0-1000, fetch 1 1000-2000, op0 1000-2000 and op1 2000-3000; fetch 0
  // of the next step at 3000. Moves before op0 wait for fetch 1: op0 at 2300.
  const std::vector<std::vector<Action>> actions = {
      {Fetch(0, 0), Fetch(1, 1)}, {}, {Drop(0, 0), Drop(1, 1)}};
  const PlanCost before = Simulate(TwoReads(), 2048, {}, actions);
  EXPECT_EQ(before.step_ns, 3000);
  const PlanCost after = Simulate(
      TwoReads(), 2048, {}, actions, {},
      {.moves = {{.duration_ns = 300, .after_fetches = {ChunkId(1)}}, {}}});
  EXPECT_EQ(after.step_ns, 4300);
  EXPECT_EQ(after.op_start_ns, (std::vector<int64_t>{0, 1000}));
}

TEST(SimulatePlan, QueuesNoOperatorBeforeTheHostThreadCameToIt) {
  // The loss of the step before is there when op1 is over: from then 400 ns to
  // op0, and 3000 to op1.
  const PlanCost cost =
      Simulate(TwoReads(), 4096, {{ChunkId(0), false}, {ChunkId(1), false}},
               {{}, {}, {}}, {}, {.issue_ns = {400, 3000}});
  EXPECT_EQ(cost.op_start_ns, (std::vector<int64_t>{0, 2600}));
  EXPECT_EQ(cost.step_ns, 4000);
}

TEST(SimulatePlan, GoesOnSomeTimeAfterWhatItWaitedFor) {
  // As in StallsWhereRoomIsFreeOnlyAfterTheLastUse, with four waits.
  const PlanCost cost =
      Simulate(TwoReads(), 1024, {{ChunkId(0), false}},
               {{}, {Drop(0, 1), Fetch(1, 1)}, {Drop(1, 0), Fetch(0, 0)}}, {},
               {.compute_handoff_ns = 10, .h2d_handoff_ns = 100});
  EXPECT_EQ(cost.step_ns, 4000 + 2 * 10 + 2 * 100);
}

// Activations of 1024 bytes in two pieces. op1 0-1000 makes them, which were
// written before it, so they leave 0-1000; op2 1000-2000; they come back
// 2000-3000, since their room was op2's; op3 3000-4000 reads them.
TEST(SimulatePlan, BringsActivationsToTheHostAndBack) {
  StepTrace trace = TraceBuilder()
                        .Chunk(1024, 0)
                        .Read({}, 0, 1000)
                        .Read({}, 1024, 1000)
                        .Write({}, 0, 1000)
                        .Write({}, 1024, 1000)
                        .Build();
  trace.chunks[0].block = 0;
  trace.chunks[0].pieces = 2;
  trace.ops[0].non_model_peak_bytes = 1024;
  trace.ops[1].non_model_peak_bytes = 0;
  trace.ops[2].non_model_peak_bytes = 1024;
  trace.ops[3].non_model_peak_bytes = 0;
  trace.ops[1].chunks = {{ChunkId(0), true}};
  trace.ops[3].chunks = {{ChunkId(0), false}};
  const PlanCost cost = Simulate(trace, 1024, {},
                                 {{},
                                  {Fetch(0, 1)},
                                  {CopyBack(0, 2), Drop(0, 2)},
                                  {Fetch(0, 3)},
                                  {Drop(0, 4)}});
  EXPECT_EQ(cost.h2d_bytes, 1024);
  EXPECT_EQ(cost.d2h_bytes, 1024);
  EXPECT_EQ(cost.op_start_ns, (std::vector<int64_t>{0, 1000, 2000, 4000}));
  EXPECT_EQ(cost.stall_ns, 1000);
  EXPECT_EQ(cost.step_ns, 5000);
  EXPECT_EQ(cost.device_peak_bytes, 1024);
  EXPECT_EQ(cost.host_bytes, 1024);
}

}  // namespace
}  // namespace castor
