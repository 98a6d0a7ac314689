// Timelines by hand: chunks of 1024 bytes take 1000 ns on the bus.
#include "memory/plan/simulator.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/plan/plan_checker.h"
#include "memory/plan/trace_builder.h"

namespace castor {
namespace {

PlanCost Simulate(const StepTrace& trace, int64_t budget,
                  std::vector<ResidentChunk> initial,
                  std::vector<std::vector<Action>> actions) {
  PlanRequest request;
  request.trace = &trace;
  request.device_budget_bytes = budget;
  request.bus = {1.024e9, 1.024e9, 0};
  Plan plan;
  plan.signature = trace.signature;
  plan.side.assign(trace.chunks.size(), Side::kHost);
  plan.initial = std::move(initial);
  plan.actions = std::move(actions);
  EXPECT_TRUE(CheckPlan(plan, request).ok()) << CheckPlan(plan, request);
  return SimulatePlan(plan, request);
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

}  // namespace
}  // namespace castor
