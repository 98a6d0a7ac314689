// One broken plan per rule on gradients that have blocks of their own, and on
// sums of them on the device.
#include <gtest/gtest.h>

#include "memory/plan/check/plan_checker.h"
#include "memory/plan/check/plan_checker_for_test.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

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
  // A payload that was copied home and came back still has gradients.
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
  // gradients in the gradient block do not need it.
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

TEST_F(CheckDeviceSumTest, RefusesUpdateBeforeTheSumIsSent) {
  request_.speculation.host_bytes = kUnlimitedBytes;
  plan_.actions[8] = {Drop(0, 8), SendSum(0, 7), Speculate(0), DropSum(0)};
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  plan_.actions[8] = {Drop(0, 8), Speculate(0), SendSum(0, 7), DropSum(0)};
  ExpectBroken("updates chunk 0 before the norm is known");
}

}  // namespace
}  // namespace castor
