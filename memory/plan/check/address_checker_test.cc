// One broken plan per rule.
#include "memory/plan/check/address_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "memory/plan/check/plan_checker.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

//   768   [ tensor 0            ]
//   512   [ work ][ tensor 1 ]
//   256           [ chunk 1  ]
//     0   [ chunk 0                ]       [ chunk 0
//   moment 0       1           2    3  4  5
class CheckAddressesTest : public ::testing::Test {
 protected:
  CheckAddressesTest() {
    request_.trace = &trace_;
    request_.device_budget_bytes = 1024;
    plan_.signature = "by hand";
    plan_.side = {Side::kHost, Side::kHost};
    plan_.initial = {{ChunkId(0), false}};
    plan_.actions.resize(6);
    plan_.actions[1] = {Fetch(1, 1)};
    plan_.actions[2] = {Drop(1, 2)};
    plan_.actions[3] = {CopyBack(0, 3), Drop(0, 3)};
    plan_.actions[5] = {Fetch(0, 0)};
    plan_.addresses = Addresses();
    plan_.addresses->initial = {0};
    plan_.addresses->actions = {256, 0};
    plan_.addresses->non_model = {{768, 256}, {512, 256}, {512, 256}};
  }

  void ExpectBroken(const std::string& message) {
    const absl::Status status = CheckAddresses(plan_, request_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  // Chunk 1 is frozen.
  StepTrace trace_ = TraceBuilder()
                         .Chunk(256, 1536)
                         .Chunk(256, 0)
                         .Read({0}, 512)
                         .Workspace(256)
                         .Read({1}, 512)
                         .Write({0}, 256)
                         .Reduce(0)
                         .Update(0)
                         .Tensor(256, 0, 2)
                         .Tensor(256, 1, 1)
                         .Build();
  PlanRequest request_;
  Plan plan_;
};

TEST_F(CheckAddressesTest, PassesAddressesThatHold) {
  EXPECT_TRUE(CheckAddresses(plan_, request_).ok())
      << CheckAddresses(plan_, request_);
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  plan_.addresses.reset();
  EXPECT_TRUE(CheckAddresses(plan_, request_).ok());
}

TEST_F(CheckAddressesTest, IsPartOfCheckPlan) {
  plan_.addresses->actions[0] = 0;
  EXPECT_THAT(std::string(CheckPlan(plan_, request_).message()),
              HasSubstr("addresses: at moment 1 the payload of chunk 1"));
}

TEST_F(CheckAddressesTest, RefusesOverlapWithALivePayload) {
  plan_.addresses->non_model[2].offset = 256;
  ExpectBroken(
      "at moment 1 a tensor lies at 256 to 512, where a live block has 256 to "
      "512");
}

TEST_F(CheckAddressesTest, RefusesOverlapWithATensorThatIsFreedLater) {
  plan_.addresses->non_model[2].offset = 768;
  ExpectBroken("where a live block has 768 to 1024");
}

TEST_F(CheckAddressesTest, RefusesOverlapWithAWorkspaceInItsOperator) {
  plan_.addresses->non_model[1].offset = 768;
  ExpectBroken("at moment 0 a workspace lies at 768");
}

TEST_F(CheckAddressesTest, RefusesABlockThatBeginsInsideAnother) {
  trace_.chunks[1].payload_bytes = 512;
  ExpectBroken("where a live block has 256 to 768");
}

TEST_F(CheckAddressesTest, RefusesOverlapAroundTheEndOfTheStep) {
  // Blocks that stay from one step are in the way of the next one.
  plan_.actions[3].pop_back();
  plan_.actions[3].pop_back();
  plan_.actions[5].clear();
  plan_.addresses->actions = {256};
  EXPECT_TRUE(CheckAddresses(plan_, request_).ok());
  plan_.addresses->initial = {512};
  ExpectBroken("at moment 0 a workspace lies at 512");
}

TEST_F(CheckAddressesTest, RefusesAPayloadElsewhereThanBeforeTheStep) {
  plan_.addresses->actions[1] = 256;
  ExpectBroken("chunk 0 is at 256 after the step and at 0 before it");
}

TEST_F(CheckAddressesTest, RefusesWhatIsNotAligned) {
  plan_.addresses->actions[0] = 300;
  ExpectBroken("at multiples of 256");
}

TEST_F(CheckAddressesTest, RefusesWhatIsBeyondTheBudget) {
  request_.device_budget_bytes = 1023;
  ExpectBroken("a tensor lies at 768, with 256 bytes; blocks lie from 0 to");
}

TEST_F(CheckAddressesTest, RefusesBlocksWhereOthersStay) {
  request_.device_reserved_bytes = 1;
  ExpectBroken("blocks begin at 0, below which 1 bytes stay");
  plan_.addresses->begin = 256;
  ExpectBroken("the initial payload of chunk 0 lies at 0");
  request_.device_reserved_bytes = 0;
  plan_.side[0] = Side::kDevice;
  ExpectBroken("blocks begin at 256, below which 1536 bytes stay");
}

TEST_F(CheckAddressesTest, RefusesAddressesOfOtherBlocks) {
  const Addresses addresses = *plan_.addresses;
  plan_.addresses->initial.clear();
  ExpectBroken("0 for 1 initial payloads");
  plan_.addresses = addresses;
  plan_.addresses->actions.pop_back();
  ExpectBroken("none for the payload of chunk 0 at moment 5");
  plan_.addresses = addresses;
  plan_.addresses->actions.push_back(0);
  ExpectBroken("3 of actions and 3 of non-model blocks; 2 and 3 are made");
  plan_.addresses = addresses;
  plan_.addresses->non_model.pop_back();
  ExpectBroken("none for a tensor at moment 1");
  plan_.addresses = addresses;
  plan_.addresses->non_model[0].bytes = 512;
  ExpectBroken("at moment 0 a tensor of 256 bytes has 512");
}

TEST_F(CheckAddressesTest, RefusesTensorsThatNoStepHas) {
  trace_.tensors[1].last = Moment(5);
  ExpectBroken("a tensor is made at moment 1 and freed after 5");
  trace_.tensors[1].last = Moment(0);
  ExpectBroken("a tensor is made at moment 1 and freed after 0");
  trace_.tensors[1] = trace_.tensors[0];
  trace_.tensors[0].birth = Moment(1);
  ExpectBroken("behind one that is made at 1");
}

// Two tensors go to the host and come back, to places of their own:
//
//   512   [ tensor 0        ][ tensor 3 ][ tensor 0 ]
//   256   [ tensor 1        ][ tensor 3 ][ tensor 1     ]
//     0            [ tens 2 ]            [ tens 4   ]
//   moment 0        1         2           3          4
class CheckActivationsTest : public ::testing::Test {
 protected:
  CheckActivationsTest() {
    request_.trace = &trace_;
    request_.device_budget_bytes = 768;
    plan_.signature = "by hand";
    plan_.side = {Side::kHost};
    plan_.actions.resize(6);
    plan_.actions[1] = {Fetch(0, 1)};  // they become the chunk
    plan_.actions[2] = {CopyBack(0, 2), Drop(0, 2)};
    plan_.actions[3] = {Fetch(0, 3)};
    plan_.actions[4] = {Drop(0, 4)};  // they are operators' again
    plan_.addresses = Addresses();
    plan_.addresses->actions = {512, 256};
    plan_.addresses->non_model = {
        {512, 256}, {256, 256}, {0, 256}, {256, 512}, {0, 256}};
  }

  void ExpectBroken(const std::string& message) {
    const absl::Status status = CheckAddresses(plan_, request_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  StepTrace trace_ = TraceBuilder()
                         .Activations(512, /*block=*/7, /*pieces=*/2)
                         .Read({}, 512)
                         .Write({0}, 256)
                         .Read({}, 512)
                         .Read({0}, 256)
                         .Read({}, 512)
                         .Tensor(256, 0, 3, 7)
                         .Tensor(256, 0, 4, 7)
                         .Tensor(256, 1, 1)
                         .Tensor(512, 2, 2)
                         .Tensor(256, 3, 3)
                         .Build();
  PlanRequest request_;
  Plan plan_;
};

TEST_F(CheckActivationsTest, PassesAddressesThatHold) {
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  // They may come back elsewhere.
  plan_.addresses->actions = {0, 512};
  plan_.addresses->non_model[4].offset = 256;
  EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
}

TEST_F(CheckActivationsTest, RefusesThePlaceOfATensorThatHasNotLeft) {
  plan_.actions[2].clear();
  plan_.actions[3].clear();
  plan_.addresses->actions.clear();
  ExpectBroken(
      "at moment 2 a tensor lies at 256 to 768, where a live block has 256 to "
      "512");
}

TEST_F(CheckActivationsTest, RefusesOverlapWithATensorThatIsFetched) {
  plan_.addresses->non_model[4].offset = 512;
  ExpectBroken("at moment 3 a tensor lies at 512 to 768, where a live block");
}

TEST_F(CheckActivationsTest, RefusesToFetchToThePlaceOfALiveTensor) {
  trace_.tensors[3].last = Moment(3);
  ExpectBroken(
      "at moment 3 a tensor of chunk 0 lies at 512 to 768, where a live block "
      "has 256 to 768");
}

TEST_F(CheckActivationsTest, RefusesOverlapUntilBackwardFreesTheTensor) {
  trace_.tensors.push_back({256, Moment(4), Moment(4)});
  plan_.addresses->non_model.push_back({512, 256});  // tensor 0 is free
  EXPECT_TRUE(CheckAddresses(plan_, request_).ok());
  plan_.addresses->non_model.back().offset = 256;
  ExpectBroken("at moment 4 a tensor lies at 256 to 512, where a live block");
}

TEST_F(CheckActivationsTest, ATensorThatIsFreedOnTheHostDoesNotComeBack) {
  trace_.tensors[0].last = Moment(2);
  ExpectBroken("2 of actions and 5 of non-model blocks; 1 and 5 are made");
  plan_.addresses->actions = {256};
  EXPECT_TRUE(CheckAddresses(plan_, request_).ok());
}

TEST_F(CheckActivationsTest, RefusesMoreOrFewerPlacesThanTensors) {
  plan_.addresses->actions.push_back(0);
  ExpectBroken("3 of actions and 5 of non-model blocks; 2 and 5 are made");
  plan_.addresses->actions = {512};
  ExpectBroken("none for a tensor of chunk 0 at moment 3");
}

TEST_F(CheckActivationsTest, RefusesAChunkOfOtherTensorsThanTheTraceSays) {
  trace_.chunks[0].pieces = 3;
  ExpectBroken(
      "at moment 1 chunk 0 is made of 2 tensors with 512 bytes, its trace says "
      "3 with 512");
  trace_.chunks[0].pieces = 2;
  trace_.tensors[1].block = -1;
  ExpectBroken("is made of 1 tensors with 256 bytes");
  trace_.tensors[1].block = 7;
  trace_.tensors[2].block = 7;
  ExpectBroken("at moment 1 a tensor is made that chunk 0 holds");
}

}  // namespace
}  // namespace castor
