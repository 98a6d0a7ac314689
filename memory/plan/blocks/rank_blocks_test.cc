// Gradient blocks of chunks of the device's side, which several ranks share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "memory/plan/check/plan_checker.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

// Two micro batches; a rank of four has 256 of the chunk's 1024 bytes.
class RankBlocks : public ::testing::Test {
 protected:
  RankBlocks() {
    trace_.chunks[0].shard_bytes = 256;
    trace_.global_norm = true;
    request_.trace = &trace_;
    request_.device_budget_bytes = 1024 + 2048;
    request_.bus = {1.024e9, 1.024e9, 0, 1.024e9};
    request_.world_size = 4;
    plan_.signature = trace_.signature;
    plan_.side = {Side::kDevice};
    plan_.initial = {{ChunkId(0), true}};
    plan_.actions = {
        {}, {MakeGradients(0, 1)}, {}, {DropGradients(0)}, {}, {}, {}, {}};
  }

  void ExpectBroken(const std::string& message) {
    EXPECT_THAT(std::string(CheckPlan(plan_, request_).message()),
                HasSubstr(message));
  }

  StepTrace trace_ = TraceBuilder()
                         .MicroBatches(2)
                         .Chunk(1024, 1024)
                         .Read({0}, 0, 1000)
                         .Write({0}, 0, 1000)
                         .Reduce(0, 0, 50)
                         .Read({0}, 0, 1000)
                         .Write({0}, 0, 1000)
                         .Reduce(0, 0, 50)
                         .Update(0, 0, 60)
                         .Build();
  PlanRequest request_;
  Plan plan_;
};

TEST_F(RankBlocks, SpareTheGatherOfWhatTheNextMicroBatchNeeds) {
  ASSERT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  // Operators 0-4000: the first gradients cross and are added beside the second
  // micro batch. Its own parts cross until 4750, are added until 4800, the
  // update ends at 4860, and the others' parameters come until 5610.
  const PlanCost with = SimulatePlan(plan_, request_);
  EXPECT_EQ(with.step_ns, 5610);
  EXPECT_EQ(with.network_bytes, 3 * 768);
  // In the payload's place: parts until 2750, put back at 2800, gathered until
  // 3550, which the second micro batch waits for.
  plan_.actions.assign(8, {});
  const PlanCost without = SimulatePlan(plan_, request_);
  EXPECT_EQ(without.step_ns, 5610 + 1550);
  EXPECT_EQ(without.network_bytes, 4 * 768);
}

TEST_F(RankBlocks, AreReadByTheReduceAndNeverSent) {
  plan_.actions[2] = {SendGradients(0, 2)};
  ExpectBroken("moment 2 (reduce0): sends gradients of chunk 0");
  plan_.actions[2] = {DropGradients(0)};
  ExpectBroken("moment 2 (reduce0): drops gradients of chunk 0");
  plan_.actions[2] = {};
  plan_.actions[3] = {};
  ExpectBroken("moment 4 (op4): writes gradients of chunk 0 after they were");
}

TEST_F(RankBlocks, AreOfMicroBatchesBeforeTheLast) {
  plan_.actions[1] = {};
  plan_.actions[3] = {};
  plan_.actions[4] = {MakeGradients(0, 4)};
  ExpectBroken("moment 5 (reduce0): reduces chunk 0");
  // A block for gradients that are in the payload would have them in two
  // places.
  plan_.actions[4] = {};
  plan_.actions[2] = {MakeGradients(0, 2)};
  ExpectBroken("moment 2 (reduce0): makes a gradient block for chunk 0");
}

TEST_F(RankBlocks, AreOfNoUseToOneRank) {
  trace_.chunks[0].shard_bytes = 0;
  request_.world_size = 1;
  ExpectBroken("moment 1 (op1): makes a gradient block for chunk 0");
  EXPECT_TRUE(PossibleGradientBlocks(trace_, {Side::kDevice}).empty());
}

TEST_F(RankBlocks, LeaveTheReduceAReaderOfThePayload) {
  const std::vector<GradientBlock> blocks =
      PossibleGradientBlocks(trace_, {Side::kDevice});
  EXPECT_EQ(blocks, (std::vector<GradientBlock>{{.chunk = 0,
                                                 .bytes = 1024,
                                                 .from = 1,
                                                 .reduce = 2,
                                                 .drop = 3,
                                                 .next_write = 4,
                                                 .sent = false}}));
  const UseIndex index(trace_, {Side::kDevice}, blocks);
  EXPECT_FALSE(index.uses(0)[1].writes);
  EXPECT_FALSE(index.uses(0)[2].writes);
  EXPECT_TRUE(index.uses(0)[4].writes);
  EXPECT_TRUE(index.uses(0)[5].writes);
}

// GPT-2 of which nearly all fits on the device.
TEST(AutoPolicy, SparesGathersOfTwoRanksWhereGradientsHaveRoom) {
  GptTraceOptions options;
  options.layers = 6;
  options.channels = 256;
  options.batch = 2;
  options.micro_batches = 4;
  options.chunk_elements = 1 << 18;
  StepTrace trace = GptTrace(options);
  trace.global_norm = true;
  for (ChunkInfo& chunk : trace.chunks) {
    chunk.shard_bytes = (chunk.payload_bytes + 1) / 2;
    chunk.optimizer_bytes /= 2;
    chunk.sum_bytes /= 2;
  }
  PlanRequest request;
  request.trace = &trace;
  request.world_size = 2;
  request.bus = {20e9, 20e9, 10000, 1e9};
  request.device_budget_bytes =
      SmallestDeviceBudget(FindPolicy("cuda"), request);
  const PlanCost all_resident = SimulatePlan(
      std::get<Plan>(MakePlan(FindPolicy("cuda"), request)), request);
  const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
  ASSERT_TRUE(CheckPlan(plan, request).ok()) << CheckPlan(plan, request);
  const PlanCost cost = SimulatePlan(plan, request);
  EXPECT_LT(cost.network_bytes, all_resident.network_bytes);
  EXPECT_LT(cost.step_ns, all_resident.step_ns);
}

}  // namespace
}  // namespace castor
