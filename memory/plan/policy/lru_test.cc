// Plans of the lru policy, derived by hand.
#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "memory/plan/planner/planner.h"
#include "memory/plan/policy/policies.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

using Actions = std::vector<std::vector<Action>>;

// Room for two chunks of 256 bytes, and nothing is fetched ahead.
PlanRequest RoomForTwo(const StepTrace& trace) {
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes = 512;
  request.prefetch = false;
  return request;
}

Plan Planned(absl::string_view policy, const PlanRequest& request) {
  return std::get<Plan>(MakePlan(FindPolicy(policy), request));
}

int64_t FetchedBytes(absl::string_view policy, const PlanRequest& request) {
  return SimulatePlan(Planned(policy, request), request).h2d_bytes;
}

TEST(LruPolicy, FetchesAllOfALoopThatDoesNotQuiteFit) {
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Read({0})
                              .Read({1})
                              .Read({2})
                              .Build();
  const PlanRequest request = RoomForTwo(trace);
  const Plan plan = Planned("lru", request);
  EXPECT_EQ(plan.policy, FindPolicy("lru"));
  // A chunk is still there when the next one is used, and has to make room for
  // the one after that, just before its own next use.
  EXPECT_TRUE(plan.initial.empty());
  EXPECT_EQ(plan.actions, (Actions{{Fetch(0, 0)},
                                   {Drop(0, 2), Fetch(1, 1)},
                                   {Drop(1, 0), Fetch(2, 2)},
                                   {Drop(2, 1)}}));
  EXPECT_EQ(FetchedBytes("lru", request), 3 * 256);
  // A policy that knows the future keeps one of them.
  EXPECT_EQ(FetchedBytes("auto", request), 2 * 256);
}

TEST(LruPolicy, KeepsWhatWasUsedLast) {
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Read({0})
                              .Read({1})
                              .Read({0})
                              .Read({2})
                              .Build();
  const PlanRequest request = RoomForTwo(trace);
  // When 2 comes, 1 has been idle for longer than 0; when 1 comes, 2 has.
  EXPECT_EQ(
      Planned("lru", request).actions,
      (Actions{{}, {Fetch(1, 1)}, {Drop(1, 3)}, {Fetch(2, 3)}, {Drop(2, 1)}}));
}

TEST(LruPolicy, MovesNothingWhereAllFits) {
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Read({0})
                              .Read({1})
                              .Build();
  EXPECT_EQ(Planned("lru", RoomForTwo(trace)).actions, Actions(3));
}

// States and updates are the host's, so the payload leaves for the update.
TEST(LruPolicy, HasOptimizerStatesOnTheHost) {
  const StepTrace trace = TraceBuilder()
                              .Chunk(256, 1536)
                              .Read({0}, 0, 1000)
                              .Write({0}, 0, 1000)
                              .Reduce(0, 100, 100)
                              .Update(0, 100, 100)
                              .Build();
  const Plan plan = Planned("lru", RoomForTwo(trace));
  EXPECT_EQ(plan.side, std::vector<Side>{Side::kHost});
  EXPECT_EQ(plan.actions,
            (Actions{{Fetch(0, 0)}, {}, {CopyBack(0, 2), Drop(0, 2)}, {}, {}}));
}

TEST(LruPolicy, FetchesOnTimeWherePrefetchIsAllowed) {
  // Copies of 256 ns hide behind an operator of 1000.
  const StepTrace trace = TraceBuilder()
                              .Evaluation()
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Chunk(256, 0)
                              .Read({0}, 0, 1000)
                              .Read({1}, 0, 1000)
                              .Read({2}, 0, 1000)
                              .Build();
  PlanRequest request = RoomForTwo(trace);
  EXPECT_GT(SimulatePlan(Planned("lru", request), request).stall_ns, 0);
  request.prefetch = true;
  EXPECT_EQ(SimulatePlan(Planned("lru", request), request).stall_ns, 0);
  EXPECT_EQ(FetchedBytes("lru", request), 3 * 256);
}

// At smallest budgets fetches that go out too early wait for room and hold up
// those behind them.
TEST(Auto, IsNoSlowerThanLruForLargeModels) {
  for (const int64_t layers : {4, 16}) {
    GptTraceOptions options;
    options.layers = layers;
    options.channels = 4096;
    options.chunk_elements = 4 * 4096 * 4096;
    StepTrace trace = GptTrace(options);
    trace.global_norm = true;
    PlanRequest request;
    request.trace = &trace;
    request.bus = {20e9, 20e9, 10000};
    const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
    for (const int64_t more : {0, 1, 3}) {
      request.device_budget_bytes =
          least + more * trace.chunks[1].payload_bytes;
      const auto step_ns = [&](const char* policy) {
        const Plan plan = std::get<Plan>(MakePlan(FindPolicy(policy), request));
        return SimulatePlan(plan, request).step_ns;
      };
      EXPECT_LE(step_ns("auto"), step_ns("lru")) << layers << ", " << more;
    }
  }
}

}  // namespace
}  // namespace castor
