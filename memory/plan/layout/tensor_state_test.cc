#include "memory/plan/layout/tensor_state.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace castor {
namespace {

constexpr TensorState kFree = TensorState::kFree;
constexpr TensorState kHold = TensorState::kHold;
constexpr TensorState kCompute = TensorState::kCompute;
constexpr TensorState kAfter = TensorState::kHoldAfterBackward;
constexpr TensorState kReady = TensorState::kReadyForReduce;
constexpr TensorState kAll[] = {kFree, kHold, kCompute, kAfter, kReady};

TEST(TensorState, EveryCellOfTheTable) {
  const std::set<std::pair<TensorState, TensorState>> legal = {
      {kFree, kHold},    {kHold, kFree},     {kHold, kCompute},
      {kCompute, kHold}, {kCompute, kAfter}, {kCompute, kReady},
      {kAfter, kFree},   {kAfter, kCompute}, {kAfter, kReady},
      {kReady, kFree},   {kReady, kHold},    {kReady, kCompute},
      {kHold, kAfter},
  };
  for (const TensorState from : kAll) {
    for (const TensorState to : kAll) {
      const bool expected = legal.contains({from, to});
      EXPECT_EQ(IsLegalTransition(from, to), expected) << from << " " << to;
      const absl::Status status =
          CheckTransition("transformer.wte.weight", from, to, "head/backward");
      if (expected) {
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      for (const absl::string_view part :
           {absl::string_view("transformer.wte.weight"), TensorStateName(from),
            TensorStateName(to), absl::string_view("head/backward")}) {
        EXPECT_NE(status.message().find(part), absl::string_view::npos)
            << status << " lacks " << part;
      }
    }
  }
}

void ExpectPath(const std::vector<TensorState>& path) {
  for (size_t i = 1; i < path.size(); ++i) {
    EXPECT_TRUE(CheckTransition("p", path[i - 1], path[i], "op").ok()) << i;
  }
}

TEST(TensorState, WalksThroughATrainingStep) {
  // Forward, backward that reads and leaves the gradient, update on the host.
  ExpectPath({kFree, kHold, kCompute, kHold, kCompute, kReady, kHold, kFree});
  // Tied: the head's backward gives the place up, the embedding's adds to it;
  // update on the device.
  ExpectPath({kHold, kCompute, kHold, kCompute, kHold, kCompute, kAfter,
              kCompute, kReady, kCompute, kHold});
  // A checkpointed block takes back its last announced use.
  ExpectPath({kHold, kCompute, kHold, kAfter, kCompute, kReady, kHold});
  // The gradient was ready before the last reader.
  ExpectPath({kHold, kCompute, kAfter, kReady, kHold});
}

}  // namespace
}  // namespace castor
