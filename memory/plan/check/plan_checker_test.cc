// One broken plan per rule.
#include "memory/plan/check/plan_checker.h"

#include <gtest/gtest.h>

#include "memory/plan/check/plan_checker_for_test.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

TEST_F(CheckPlanTest, PassesPlanThatHolds) {
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  request_.device_budget_bytes = 812;
  EXPECT_TRUE(CheckPlan(plan_, request_).ok());
}

TEST_F(CheckPlanTest, RefusesOperatorWithoutRoom) {
  request_.device_budget_bytes = 811;
  ExpectBroken(
      "moment 1 (op1): 812 B (812 bytes) while it runs, of them 300 B");
}

TEST_F(CheckPlanTest, CountsReservedBytesAndOptimizerStates) {
  request_.device_reserved_bytes = 89;
  ExpectBroken("moment 1 (op1): 901 B");
  request_.device_reserved_bytes = 0;
  plan_.side[0] = Side::kDevice;
  ExpectBroken("before moment 0: 1.75 KiB are resident");
}

TEST_F(CheckPlanTest, RefusesFetchWithoutRoomBetweenOperators) {
  request_.device_budget_bytes = 600;
  plan_.actions[1] = {Drop(0, 1), Fetch(1, 1)};
  plan_.actions[2] = {Drop(1, 2), Fetch(0, 2)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  plan_.actions[1] = {Fetch(1, 1), Drop(0, 1)};
  ExpectBroken("moment 1 (op1): 612 B (612 bytes) after the fetch of chunk 1");
}

TEST_F(CheckPlanTest, RefusesOperatorWithoutItsChunk) {
  plan_.actions[1].clear();
  plan_.actions[2].clear();
  ExpectBroken("moment 1 (op1): needs chunk 1, which is absent");
}

TEST_F(CheckPlanTest, RefusesHostWorkOnResidentChunk) {
  plan_.actions[3].clear();
  plan_.actions[4] = {CopyBack(0, 4), Drop(0, 4)};
  ExpectBroken("moment 3 (reduce0): the host works on chunk 0");
}

TEST_F(CheckPlanTest, RefusesDeviceUpdateOfAbsentChunk) {
  request_.device_budget_bytes = 5000;
  plan_.side[0] = Side::kDevice;
  ExpectBroken("moment 3 (reduce0): needs chunk 0, which is absent");
}

TEST_F(CheckPlanTest, RefusesDropOfDirtyPayload) {
  plan_.actions[3] = {Drop(0, 3)};
  ExpectBroken("moment 3 (reduce0): drop of chunk 0, which is dirty");
}

TEST_F(CheckPlanTest, RefusesDropOfAbsentPayload) {
  plan_.actions[4] = {Drop(0, 4)};
  ExpectBroken("moment 4 (update0): drop of chunk 0, which is absent");
}

TEST_F(CheckPlanTest, RefusesFetchOfResidentPayload) {
  plan_.actions[2] = {Fetch(0, 2)};
  ExpectBroken("moment 2 (op2): fetch of chunk 0, which is resident");
}

TEST_F(CheckPlanTest, RefusesFetchBeforeTheHostsUpdate) {
  plan_.actions[4] = {Fetch(0, 4)};
  ExpectBroken("moment 4 (update0): fetch of chunk 0, which awaits its update");
}

TEST_F(CheckPlanTest, RefusesNeedlessCopyBack) {
  plan_.actions[1] = {CopyBack(0, 1), Fetch(1, 1)};
  ExpectBroken("moment 1 (op1): copy back of chunk 0, which is clean");
  plan_.actions[1] = {CopyBack(1, 1), Fetch(1, 1)};
  ExpectBroken("moment 1 (op1): copy back of chunk 1, which is absent");
}

TEST_F(CheckPlanTest, RefusesPlanThatDoesNotRepeat) {
  plan_.actions[5].clear();
  ExpectBroken("chunk 0 is absent after the step and resident before it");
}

TEST_F(CheckPlanTest, RefusesHostWithoutRoom) {
  // 512 of homes, 1536 of optimizer states, 100 reserved.
  request_.host_reserved_bytes = 100;
  request_.host_budget_bytes = 2148;
  EXPECT_TRUE(CheckPlan(plan_, request_).ok());
  request_.host_budget_bytes = 2147;
  ExpectBroken("(2148 bytes) of the host");
}

TEST_F(CheckPlanTest, RefusesVectorsOfTheWrongSize) {
  plan_.actions.pop_back();
  ExpectBroken("actions for 5 places, the trace has 6");
  plan_.side.pop_back();
  ExpectBroken("1 sides for 2 chunks");
}

TEST_F(CheckPlanTest, RefusesIdsOutOfRange) {
  plan_.actions[4] = {Fetch(2, 4)};
  ExpectBroken("moment 4 (update0): action on chunk 2 of 2");
  plan_.actions[4].clear();
  plan_.initial = {{ChunkId(-1), false}};
  ExpectBroken("initial: chunk -1 of 2");
  plan_.initial = {{ChunkId(0), false}, {ChunkId(0), false}};
  ExpectBroken("initial: chunk 0 after chunk 0");
}

TEST_F(CheckPlanTest, RefusesAnotherTracesPlan) {
  plan_.signature = "another";
  ExpectBroken("the plan is for trace 'another', not for 'by hand'");
}

TEST_F(CheckPlanTest, RefusesFrozenChunkWithOptimizer) {
  plan_.side[1] = Side::kDevice;
  ExpectBroken("chunk 1 is frozen but on the device's side");
  plan_.side[1] = Side::kHost;
  trace_.ops[3].chunks[0].chunk = ChunkId(1);
  ExpectBroken("moment 3 (reduce0): chunk 1 is frozen but reduced");
}

TEST_F(CheckPlanTest, RefusesOtherThanFixedSides) {
  request_.fixed_side = {Side::kDevice, Side::kHost};
  ExpectBroken("the plan's sides are not the fixed ones");
}

TEST_F(CheckPlanTest, WantsDeviceSideResidentAndDirtyInEvaluation) {
  trace_ = TraceBuilder().Evaluation().Chunk(256, 1536).Read({0}).Build();
  request_.device_budget_bytes = 5000;
  plan_.side = {Side::kDevice};
  plan_.actions = {{}, {}};
  ExpectBroken("it must be resident and dirty");
  plan_.initial = {{ChunkId(0), true}};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
}

// As CheckPlanTest, with chunk 0's update before the norm is known.
class CheckSpeculationTest : public CheckPlanTest {
 protected:
  CheckSpeculationTest() {
    request_.speculation.host_bytes = kUnlimitedBytes;
    plan_.actions[4] = {Speculate(0)};
  }
};

TEST_F(CheckSpeculationTest, PassesPlanThatHolds) {
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
}

TEST_F(CheckSpeculationTest, RefusesFetchBeforeTheCommit) {
  plan_.actions[4] = {Speculate(0), Fetch(0, 0)};
  plan_.actions[5] = {};
  ExpectBroken(
      "moment 4 (update0): fetch of chunk 0, whose update is not "
      "committed");
}

TEST_F(CheckSpeculationTest, RefusesUpdateBeforeAllGradientsAreReduced) {
  plan_.actions[4] = {};
  plan_.actions[3] = {CopyBack(0, 3), Drop(0, 3), Speculate(0)};
  ExpectBroken(
      "updates chunk 0 before the norm is known, of which the host "
      "has not all gradients");
  // After its update all gradients are used.
  plan_.actions[3] = {CopyBack(0, 3), Drop(0, 3)};
  plan_.actions[5] = {Speculate(0), Fetch(0, 0)};
  ExpectBroken("moment 5 (end of step): updates chunk 0");
}

TEST_F(CheckSpeculationTest, RefusesTwoUpdates) {
  plan_.actions[4] = {Speculate(0), Speculate(0)};
  ExpectBroken("its update not committed");
}

TEST_F(CheckSpeculationTest, RefusesUpdateOfFrozenChunk) {
  plan_.actions[4] = {Speculate(1)};
  ExpectBroken("updates chunk 1 before the norm is known");
}

TEST_F(CheckSpeculationTest, RefusesUpdateOnTheDevice) {
  plan_.side[0] = Side::kDevice;
  plan_.actions[3] = {};
  plan_.actions[5] = {};
  plan_.initial = {{ChunkId(0), true}};
  request_.device_budget_bytes = 4096;
  ExpectBroken("updates chunk 0 before the norm is known");
}

TEST_F(CheckSpeculationTest, CountsTheBankOnTheHost) {
  // Homes of 256 and 256, states of 1536, a bank of states and gradients.
  request_.host_budget_bytes = 2048 + 1792;
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  --request_.host_budget_bytes;
  ExpectBroken(
      "homes, banks and optimizer states take 3.75 KiB (3840 bytes) of "
      "the host, its budget is 3.75 KiB (3839 bytes)");
  // Where the host has room, speculation may still have less.
  request_.host_budget_bytes = kUnlimitedBytes;
  request_.speculation.host_bytes = 3839;
  ExpectBroken("its budget is 3.75 KiB (3839 bytes)");
  request_.speculation.host_bytes = 0;
  ExpectBroken("its budget is 0 B (0 bytes)");
}

// Chunk 1 holds activations of 512 bytes, which the operator after their
// forward makes, which has no need of them; those of moments 2 and 3 need 300
// and 100 bytes, so that all is there at no moment but the last.
class CheckActivationsTest : public CheckPlanTest {
 protected:
  CheckActivationsTest() {
    trace_ = TraceBuilder()
                 .Chunk(256, 1536)
                 .Chunk(512, 0)
                 .Read({0}, 700)
                 .Read({}, 100)
                 .Read({0}, 300)
                 .Read({}, 100)
                 .Write({0}, 600)
                 .Reduce(0)
                 .Update(0)
                 .Build();
    trace_.chunks[1].block = 0;
    trace_.ops[1].chunks = {{ChunkId(1), true}};
    trace_.ops[3].chunks = {{ChunkId(1), false}};
    request_.device_budget_bytes = 956;
    plan_.actions.assign(8, {});
    plan_.actions[1] = {Fetch(1, 1)};
    plan_.actions[2] = {CopyBack(1, 2), Drop(1, 2)};
    plan_.actions[3] = {Fetch(1, 3)};
    plan_.actions[4] = {Drop(1, 4)};
    plan_.actions[5] = {CopyBack(0, 5), Drop(0, 5)};
    plan_.actions[7] = {Fetch(0, 0)};
  }
};

TEST_F(CheckActivationsTest, PassesPlanThatHolds) {
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  // They may stay where there is room.
  plan_.actions[2] = plan_.actions[3] = {};
  ExpectBroken("moment 2 (op2): 1.04 KiB (1068 bytes) while it runs");
  request_.device_budget_bytes = 1068;
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
}

TEST_F(CheckActivationsTest, RefusesActivationsThatAreLost) {
  plan_.actions[2] = {Drop(1, 2)};
  ExpectBroken("moment 2 (op2): drop of chunk 1, which is dirty");
}

TEST_F(CheckActivationsTest, RefusesActivationsThatAreNotBack) {
  plan_.actions[3] = {};
  ExpectBroken(
      "moment 3 (op3): reads the activations of chunk 1, which is made "
      "and absent");
}

TEST_F(CheckActivationsTest, RefusesFetchBeforeTheyAreMade) {
  plan_.actions[1] = {};
  ExpectBroken(
      "moment 1 (op1): makes the activations of chunk 1, which is not "
      "made and absent");
  plan_.actions[0] = {Fetch(1, 1)};
  request_.device_budget_bytes = 4096;
  ExpectBroken(
      "moment 0 (op0): fetch of chunk 1, whose activations the block's "
      "forward has not made, or its backward has had");
}

TEST_F(CheckActivationsTest, RefusesFetchAfterBackwardHasReadThem) {
  plan_.actions[5] = {Fetch(1, 5), CopyBack(0, 5), Drop(0, 5)};
  request_.device_budget_bytes = 4096;
  ExpectBroken("moment 5 (reduce0): fetch of chunk 1, whose activations");
}

TEST_F(CheckActivationsTest, RefusesActivationsBesideTheOperatorsOwn) {
  plan_.actions[4] = {};
  plan_.actions[5] = {Drop(1, 5), CopyBack(0, 5), Drop(0, 5)};
  request_.device_budget_bytes = 4096;
  ExpectBroken(
      "moment 4 (op4): chunk 1 is resident, but its activations are "
      "the operators'");
}

TEST_F(CheckActivationsTest, RefusesActivationsBetweenSteps) {
  plan_.initial = {{ChunkId(0), false}, {ChunkId(1), true}};
  request_.device_budget_bytes = 4096;
  ExpectBroken("initial: chunk 1 holds activations");
}

TEST_F(CheckActivationsTest, CountsTheirHome) {
  request_.host_budget_bytes = 256 + 1536 + 512;
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  --request_.host_budget_bytes;
  ExpectBroken("homes and optimizer states take 2.25 KiB (2304 bytes)");
}

}  // namespace
}  // namespace castor
