// One broken plan per rule.
#include "memory/plan/plan_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "memory/plan/trace_builder.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

class CheckPlanTest : public ::testing::Test {
 protected:
  CheckPlanTest() {
    request_.trace = &trace_;
    // Moment 1 needs both chunks and 300 bytes: 812.
    request_.device_budget_bytes = 900;
    plan_.signature = "by hand";
    plan_.side = {Side::kHost, Side::kHost};
    plan_.initial = {{ChunkId(0), false}};
    plan_.actions.resize(6);
    plan_.actions[1] = {Fetch(1, 1)};
    plan_.actions[2] = {Drop(1, 2)};
    plan_.actions[3] = {CopyBack(0, 3), Drop(0, 3)};
    plan_.actions[5] = {Fetch(0, 0)};
  }

  void ExpectBroken(const std::string& message) {
    const absl::Status status = CheckPlan(plan_, request_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  // Chunk 1 is frozen.
  StepTrace trace_ = TraceBuilder()
                         .Chunk(256, 1536)
                         .Chunk(256, 0)
                         .Read({0}, 100)
                         .Read({1}, 300)
                         .Write({0}, 100)
                         .Reduce(0)
                         .Update(0)
                         .Build();
  PlanRequest request_;
  Plan plan_;
};

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

// Two micro batches. The first one's gradients lie beside the payload, which
// stays; between its two writes there is a read.
class CheckGradientBlockTest : public CheckPlanTest {
 protected:
  CheckGradientBlockTest() {
    trace_ = TraceBuilder()
                 .MicroBatches(2)
                 .Chunk(256, 1536)
                 .Chunk(256, 0)
                 .Read({0}, 100)   // 0
                 .Write({0}, 100)  // 1
                 .Read({0}, 100)   // 2
                 .Write({0}, 100)  // 3
                 .Reduce(0)        // 4
                 .Read({0}, 100)   // 5
                 .Write({0}, 100)  // 6
                 .Reduce(0)        // 7
                 .Update(0)        // 8
                 .Build();
    request_.device_budget_bytes = 612;
    plan_.actions.assign(10, {});
    plan_.actions[1] = {MakeGradients(0, 1)};
    plan_.actions[4] = {SendGradients(0, 4), DropGradients(0)};
    plan_.actions[7] = {CopyBack(0, 7), Drop(0, 7)};
    plan_.actions[9] = {Fetch(0, 0)};
  }
};

TEST_F(CheckGradientBlockTest, PassesPlanThatHolds) {
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  // The payload may leave for a while, clean, before the gradients are sent.
  plan_.actions[2] = {Drop(0, 2), Fetch(0, 2)};
  // And it may come back after their reduce.
  plan_.actions[4] = {Drop(0, 4), SendGradients(0, 4)};
  plan_.actions[6] = {DropGradients(0)};
  plan_.actions[5] = {Fetch(0, 5)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
}

TEST_F(CheckGradientBlockTest, CountsTheBlock) {
  request_.device_budget_bytes = 611;
  ExpectBroken(
      "moment 1 (op1): 612 B (612 bytes) after the gradient block of chunk 0 "
      "is made");
  // It counts until it is dropped.
  request_.device_budget_bytes = 612;
  plan_.actions[4] = {SendGradients(0, 4)};
  plan_.actions[6] = {DropGradients(0)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  trace_.ops[5].non_model_peak_bytes = 101;
  ExpectBroken("moment 5 (op5): 613 B (613 bytes) while it runs");
}

TEST_F(CheckGradientBlockTest, RefusesReduceOfGradientsThatWereNotSent) {
  plan_.actions[4].clear();
  plan_.actions[5] = {SendGradients(0, 5), DropGradients(0)};
  ExpectBroken(
      "moment 4 (reduce0): the host works on chunk 0, whose gradients were "
      "not sent");
}

TEST_F(CheckGradientBlockTest, RefusesSendingWithoutABlock) {
  plan_.actions[4] = {SendGradients(0, 4), SendGradients(0, 4)};
  ExpectBroken("moment 4 (reduce0): sends gradients of chunk 0, which has no");
}

TEST_F(CheckGradientBlockTest, RefusesDroppingWhatWasNotSent) {
  plan_.actions[4] = {DropGradients(0), SendGradients(0, 4)};
  ExpectBroken("moment 4 (reduce0): drops gradients of chunk 0, which has no");
  plan_.actions[4] = {SendGradients(0, 4), DropGradients(0), DropGradients(0)};
  ExpectBroken("moment 4 (reduce0): drops gradients of chunk 0, which has no");
}

TEST_F(CheckGradientBlockTest, RefusesGradientsInTwoPlaces) {
  request_.device_budget_bytes = 2000;
  plan_.actions[2] = {MakeGradients(0, 2)};
  ExpectBroken(
      "moment 2 (op2): makes a gradient block for chunk 0, which is resident, "
      "with a gradient block");
  // The first operator has written in the payload.
  plan_.actions[1].clear();
  ExpectBroken(
      "moment 2 (op2): makes a gradient block for chunk 0, which is resident "
      "and dirty, with gradients");
  // What was copied home and came back still has gradients.
  plan_.actions[2] = {CopyBack(0, 2), Drop(0, 2), Fetch(0, 2),
                      MakeGradients(0, 2)};
  ExpectBroken(
      "makes a gradient block for chunk 0, which is resident, with gradients");
}

TEST_F(CheckGradientBlockTest, RefusesWritesAfterTheGradientsWereSent) {
  plan_.actions[3] = {SendGradients(0, 3)};
  plan_.actions[4] = {DropGradients(0)};
  ExpectBroken("moment 3 (op3): writes gradients of chunk 0 after they were");
  // The next micro batch's go nowhere while there is this one's block.
  plan_.actions[3].clear();
  plan_.actions[4] = {SendGradients(0, 4)};
  plan_.actions[7].push_back(DropGradients(0));
  ExpectBroken("moment 6 (op6): writes gradients of chunk 0 after they were");
}

TEST_F(CheckGradientBlockTest, RefusesFetchFromHomeThatHasGradients) {
  plan_.actions[4] = {SendGradients(0, 4), Drop(0, 4), Fetch(0, 5)};
  ExpectBroken(
      "moment 4 (reduce0): fetch of chunk 0, whose home has gradients");
}

TEST_F(CheckGradientBlockTest, RefusesPayloadThatItsUpdateMakesStale) {
  plan_.actions[6] = {MakeGradients(0, 6)};
  plan_.actions[7] = {SendGradients(0, 7), DropGradients(0)};
  ExpectBroken("moment 7 (reduce0): the host works on chunk 0, which is");
  // Without the payload there is nothing wrong with it.
  plan_.actions[7] = {Drop(0, 7), SendGradients(0, 7), DropGradients(0)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
}

TEST_F(CheckGradientBlockTest, RefusesBlockForGradientsThatTheHostNeverGets) {
  request_.device_budget_bytes = 5000;
  plan_.actions[1] = {Fetch(1, 1), MakeGradients(1, 1)};  // frozen
  ExpectBroken("moment 1 (op1): makes a gradient block for chunk 1, whose");
  plan_.actions[1] = {MakeGradients(0, 1)};
  plan_.side[0] = Side::kDevice;
  ExpectBroken("moment 1 (op1): makes a gradient block for chunk 0, whose");
}

TEST_F(CheckGradientBlockTest, RefusesBlockThatIsLeftWhenTheStepEnds) {
  plan_.actions[9] = {Fetch(0, 0), MakeGradients(0, 1)};
  ExpectBroken(
      "chunk 0 is resident, with a gradient block after the step and resident "
      "before it");
}

// The same micro batches, whose gradients the device adds up: 512 bytes.
class CheckDeviceSumTest : public CheckGradientBlockTest {
 protected:
  CheckDeviceSumTest() {
    trace_.chunks[0].sum_bytes = 512;
    request_.device_budget_bytes = 256 + 256 + 512 + 100;
    plan_.actions[4] = {MakeSum(0, 4)};
    plan_.actions[5] = {DropGradients(0)};
    plan_.actions[7].clear();
    plan_.actions[8] = {Drop(0, 8), SendSum(0, 7), DropSum(0)};
  }
};

TEST_F(CheckDeviceSumTest, PassesPlanThatHolds) {
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  // The payload may leave and come back, whatever is under way with its sum;
  // what is in the gradient block does not need it.
  plan_.actions[4] = {Drop(0, 4), MakeSum(0, 4)};
  plan_.actions[5] = {Fetch(0, 5), DropGradients(0)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  // The last gradients may be at home for a while.
  plan_.actions[7] = {CopyBack(0, 7), Drop(0, 7), Fetch(0, 7)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  // The block and the sum may stay longer than they must.
  plan_.actions[5] = {Fetch(0, 5)};
  plan_.actions[6] = {DropGradients(0)};
  plan_.actions[8] = {Drop(0, 8), SendSum(0, 7)};
  plan_.actions[9] = {DropSum(0), Fetch(0, 0)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
}

TEST_F(CheckDeviceSumTest, CountsTheSum) {
  trace_.ops[4].non_model_peak_bytes = 101;
  ExpectBroken("moment 4 (reduce0): 1.10 KiB (1125 bytes) while it runs");
  trace_.ops[4].non_model_peak_bytes = 0;
  request_.device_budget_bytes = 1023;
  ExpectBroken(
      "moment 4 (reduce0): 1.00 KiB (1024 bytes) after the sum of chunk 0 is "
      "made");
  // It counts until it is dropped.
  request_.device_budget_bytes = 1024;
  trace_.ops[7].non_model_peak_bytes = 257;
  ExpectBroken("moment 7 (reduce0): 1.00 KiB (1025 bytes) while it runs");
}

TEST_F(CheckDeviceSumTest, RefusesSumWithoutTheFirstGradients) {
  plan_.actions[4] = {SendGradients(0, 4), DropGradients(0)};
  plan_.actions[5].clear();
  plan_.actions[7] = {MakeSum(0, 7)};
  ExpectBroken(
      "moment 7 (reduce0): makes a sum on the device for chunk 0, which is "
      "resident and dirty, with gradients, with gradients reduced");
}

TEST_F(CheckDeviceSumTest, RefusesTwoSums) {
  plan_.actions[4] = {MakeSum(0, 4), MakeSum(0, 4)};
  request_.device_budget_bytes = 5000;
  ExpectBroken("with a gradient block, with a sum on the device");
}

TEST_F(CheckDeviceSumTest, RefusesSumForGradientsThatTheHostNeverGets) {
  request_.device_budget_bytes = 5000;
  plan_.actions[4] = {MakeSum(1, 4)};  // frozen
  ExpectBroken("makes a sum on the device for chunk 1, whose gradients");
  plan_.actions[4] = {MakeSum(0, 4)};
  trace_.chunks[0].sum_bytes = 0;  // nobody knows how large it is
  ExpectBroken("makes a sum on the device for chunk 0, whose gradients");
  trace_.chunks[0].sum_bytes = 512;
  plan_.actions[1].clear();
  plan_.side[0] = Side::kDevice;
  ExpectBroken("makes a sum on the device for chunk 0, whose gradients");
}

TEST_F(CheckDeviceSumTest, RefusesToAddUpWhatIsInThePayloadBeforeTheLast) {
  plan_.actions[1].clear();
  plan_.actions[5].clear();
  ExpectBroken(
      "moment 4 (reduce0): the device adds up chunk 0, which is resident and "
      "dirty, with gradients, with a sum on the device, but not from a "
      "gradient block");
}

TEST_F(CheckDeviceSumTest, RefusesToAddUpWhatWasSent) {
  plan_.actions[4] = {MakeSum(0, 4), SendGradients(0, 4)};
  ExpectBroken("sends gradients of chunk 0, which the device adds up");
  plan_.actions[4] = {SendGradients(0, 4), MakeSum(0, 4)};
  ExpectBroken("moment 4 (reduce0): the device adds up chunk 0, which is");
}

TEST_F(CheckDeviceSumTest, RefusesLastGradientsElsewhereThanInThePayload) {
  // In a block beside it.
  plan_.actions[6] = {MakeGradients(0, 6)};
  ExpectBroken(
      "moment 7 (reduce0): the device adds up chunk 0, which is resident, "
      "with a gradient block, with gradients reduced, with a sum on the "
      "device, but not from its payload");
  // At home.
  plan_.actions[6].clear();
  plan_.actions[7] = {CopyBack(0, 7), Drop(0, 7)};
  plan_.actions[8] = {SendSum(0, 7), DropSum(0)};
  ExpectBroken("moment 7 (reduce0): the device adds up chunk 0, which is");
}

TEST_F(CheckDeviceSumTest, RefusesToLoseGradients) {
  plan_.actions[4].push_back(DropGradients(0));  // before they are added
  ExpectBroken("moment 4 (reduce0): drops gradients of chunk 0, which has no");
  plan_.actions[4].pop_back();
  // The next ones would be added to them.
  plan_.actions[5].clear();
  plan_.actions[7] = {DropGradients(0)};
  ExpectBroken("moment 6 (op6): writes gradients of chunk 0 after they were");
}

TEST_F(CheckDeviceSumTest, RefusesSumThatIsNotWhole) {
  plan_.actions[5].push_back(SendSum(0, 4));
  ExpectBroken("moment 5 (op5): sends the sum of chunk 0, which has none");
}

TEST_F(CheckDeviceSumTest, RefusesToLoseTheSum) {
  plan_.actions[8] = {Drop(0, 8), DropSum(0), SendSum(0, 7)};
  ExpectBroken("moment 8 (update0): drops the sum of chunk 0, which has none");
  plan_.actions[8] = {Drop(0, 8), SendSum(0, 7), SendSum(0, 7)};
  ExpectBroken("moment 8 (update0): sends the sum of chunk 0, which has none");
  plan_.actions[8] = {Drop(0, 8)};
  plan_.actions[9] = {SendSum(0, 7), DropSum(0), Fetch(0, 0)};
  ExpectBroken(
      "moment 8 (update0): the host updates chunk 0, whose sum was not sent");
}

TEST_F(CheckDeviceSumTest, RefusesSumThatIsLeftWhenTheStepEnds) {
  plan_.actions[8] = {Drop(0, 8), SendSum(0, 7)};
  ExpectBroken("chunk 0 is resident, with a sum on the device after the step");
}

TEST_F(CheckDeviceSumTest, RefusesUseOfPayloadThatIsWorthNothing) {
  // A later operator reads what its gradients have taken over.
  trace_.ops.insert(trace_.ops.begin() + 8, trace_.ops[5]);
  plan_.actions.insert(plan_.actions.begin() + 8, std::vector<Action>());
  ExpectBroken(
      "moment 8 (op5): uses chunk 0, whose payload is worth nothing until its "
      "update");
  // It is not for the host to update it there, nor to be fetched before.
  plan_.actions[8] = {Drop(0, 8), Fetch(0, 8)};
  ExpectBroken("moment 8 (op5): fetch of chunk 0, which awaits its update");
  trace_.ops.erase(trace_.ops.begin() + 8);
  plan_.actions.erase(plan_.actions.begin() + 8);
  plan_.actions[8] = {SendSum(0, 7), DropSum(0)};
  ExpectBroken("moment 8 (update0): the host works on chunk 0, which is");
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

TEST_F(CheckDeviceSumTest, RefusesUpdateBeforeTheSumIsSent) {
  request_.speculation.host_bytes = kUnlimitedBytes;
  plan_.actions[8] = {Drop(0, 8), SendSum(0, 7), Speculate(0), DropSum(0)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  plan_.actions[8] = {Drop(0, 8), Speculate(0), SendSum(0, 7), DropSum(0)};
  ExpectBroken("updates chunk 0 before the norm is known");
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
