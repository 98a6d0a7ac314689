#include "runtime/autograd/gradient_place.h"

#include <memory>

#include "gtest/gtest.h"

namespace castor {
namespace {

using Where = GradientPlace::Where;
constexpr GradientPlace::Owner kOwner = {.name = "w"};

class NoOwner final : public StorageOwner {
  void Release(int64_t /*storage_id*/) override {}
};

Tensor NewTensor(int64_t id) {
  static NoOwner owner;
  return Tensor(std::make_shared<Storage>(&owner, id), {4}, DType::kFloat32,
                id);
}

// A place after forward announced so many uses.
GradientPlace After(int reads, int gradients) {
  GradientPlace place;
  place.Begin();
  for (int i = 0; i < reads; ++i) place.ExpectRead();
  for (int i = 0; i < gradients; ++i) place.ExpectGradient();
  return place;
}

void WriteInPlace(GradientPlace& place, bool ends_a_read = false) {
  ASSERT_EQ(place.NextContribution(ends_a_read), Where::kInPlace);
  ASSERT_TRUE(place.Enter(kOwner, "op", /*writes=*/true).ok());
  place.Contribute(Where::kInPlace, ends_a_read);
  ASSERT_TRUE(place.Leave(kOwner, "op").ok());
}

TEST(GradientPlace, ContributionsGoInPlaceOnceNoReadIsPending) {
  GradientPlace place = After(/*reads=*/1, /*gradients=*/2);
  EXPECT_EQ(place.NextContribution(/*ends_a_read=*/false), Where::kNewEarly);
  EXPECT_FALSE(*place.EndRead(kOwner));
  EXPECT_EQ(place.state(), TensorState::kHoldAfterBackward);
  WriteInPlace(place);
  EXPECT_TRUE(place.holds_gradient());
  EXPECT_EQ(place.state(), TensorState::kHoldAfterBackward);
  WriteInPlace(place);
  EXPECT_EQ(place.state(), TensorState::kReadyForReduce);
  ASSERT_TRUE(place.Restore(kOwner, "reduce").ok());
  EXPECT_EQ(place.state(), TensorState::kHold);
  EXPECT_FALSE(place.holds_gradient());
}

TEST(GradientPlace, TheLastReaderMayWriteOverWhatItReads) {
  GradientPlace place = After(/*reads=*/1, /*gradients=*/1);
  WriteInPlace(place, /*ends_a_read=*/true);
  EXPECT_EQ(place.pending_reads(), 0);
  EXPECT_EQ(place.state(), TensorState::kReadyForReduce);
}

TEST(GradientPlace, AnEarlyContributionMovesInWithTheLastRead) {
  GradientPlace place = After(/*reads=*/2, /*gradients=*/3);
  place.Contribute(Where::kNewEarly, /*ends_a_read=*/true, NewTensor(7));
  EXPECT_TRUE(place.has_contributions());
  EXPECT_FALSE(*place.EndRead(kOwner));
  // The last reader would write over the values, but the early gradient is
  // kept.
  EXPECT_EQ(place.NextContribution(/*ends_a_read=*/true), Where::kIntoEarly);
  place.Contribute(Where::kIntoEarly, /*ends_a_read=*/true);
  EXPECT_EQ(place.state(), TensorState::kHold);
  EXPECT_TRUE(*place.EndRead(kOwner));
  EXPECT_EQ(place.TakeEarly().storage_id(), 7);
  EXPECT_FALSE(static_cast<bool>(place.early()));
  WriteInPlace(place);
  EXPECT_EQ(place.pending_gradients(), 1);
  EXPECT_EQ(place.state(), TensorState::kHoldAfterBackward);
  WriteInPlace(place);
  EXPECT_EQ(place.state(), TensorState::kReadyForReduce);
}

TEST(GradientPlace, WhatIsTakenBackMayBeTheLastThatWasMissing) {
  GradientPlace place = After(/*reads=*/0, /*gradients=*/2);
  WriteInPlace(place);
  EXPECT_FALSE(*place.CompleteWithoutUse(kOwner));
  place.TakeBackGradient();
  EXPECT_TRUE(*place.CompleteWithoutUse(kOwner));
  EXPECT_EQ(place.state(), TensorState::kReadyForReduce);
  EXPECT_FALSE(*place.CompleteWithoutUse(kOwner));  // told once
}

TEST(GradientPlace, RefusesToReadAGradientAsValues) {
  GradientPlace place = After(/*reads=*/0, /*gradients=*/2);
  WriteInPlace(place);
  EXPECT_EQ(place.Enter(kOwner, "op", /*writes=*/false).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(GradientPlace, AFrozenParameterIsOnlyRead) {
  GradientPlace place = After(/*reads=*/1, /*gradients=*/0);
  EXPECT_FALSE(*place.EndRead({.name = "w", .trainable = false}));
  EXPECT_EQ(place.state(), TensorState::kHold);
}

TEST(GradientPlace, AMicroBatchThatBreaksOffLeavesTheParameter) {
  GradientPlace place = After(/*reads=*/1, /*gradients=*/2);
  place.Contribute(Where::kNewEarly, /*ends_a_read=*/false, NewTensor(1));
  place.End();
  EXPECT_FALSE(place.has_contributions());
  EXPECT_EQ(place.state(), TensorState::kHold);
  place.Begin();
  EXPECT_EQ(place.pending_reads(), 0);
  EXPECT_EQ(place.pending_gradients(), 0);
  place.Move();
  EXPECT_EQ(place.state(), TensorState::kFree);
}

}  // namespace
}  // namespace castor
