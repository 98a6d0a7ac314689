#include "memory/plan/addresses/expected_moves.h"

#include <gtest/gtest.h>

#include "memory/plan/check/plan_checker.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

constexpr int64_t kUnit = 256;  // kBlockAlignment

// Chunks 0 and 1, of a unit each, are resident, at 0 and 1; chunk 0 leaves for
// a tensor of two units, which fits only where chunk 1 moves:
//
//   2  .      .    T
//   1  1      1    T
//   0  0      .    1
//
// Chunk 0 comes again when the tensor is gone, to unit 1, and chunk 1 lies at
// 0. In the next step chunk 0 leaves from 1, and nothing moves.
class ExpectedMovesTest : public ::testing::Test {
 protected:
  ExpectedMovesTest() {
    request_.trace = &trace_;
    request_.device_budget_bytes = 3 * kUnit;
    plan_.signature = "by hand";
    plan_.side = {Side::kHost, Side::kHost};
    plan_.initial = {{ChunkId(0)}, {ChunkId(1)}};
    plan_.actions.resize(4);
    plan_.actions[1] = {Drop(0, 1)};
    plan_.actions[2] = {Fetch(0, 2)};
  }

  StepTrace trace_ = TraceBuilder()
                         .Chunk(kUnit, 0)
                         .Chunk(kUnit, 0)
                         .Read({0})
                         .Read({1}, 2 * kUnit)
                         .Read({0})
                         .Tensor(2 * kUnit, 1, 1)
                         .Build();
  PlanRequest request_;
  Plan plan_;
};

TEST_F(ExpectedMovesTest, AreThoseOfTheSteadyState) {
  ASSERT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  const auto moves = ExpectMoves(plan_, request_);
  ASSERT_TRUE(moves.has_value());
  EXPECT_EQ(moves->times, 0);
  EXPECT_EQ(moves->bytes, 0);
}

TEST_F(ExpectedMovesTest, CountBlocksAndTheirBytes) {
  // Now chunk 1 leaves and comes too, after chunk 0: they change places in no
  // step, so each step moves chunk 1 for the tensor.
  trace_.ops.push_back(trace_.ops[1]);
  trace_.ops.back().non_model_peak_bytes = 0;
  trace_.ops.push_back(trace_.ops[0]);
  plan_.actions.insert(plan_.actions.begin() + 3, 2, {});
  plan_.actions[3] = {Drop(0, 3), Drop(1, 3), Fetch(0, 4), Fetch(1, 3)};
  ASSERT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
  const auto moves = ExpectMoves(plan_, request_);
  ASSERT_TRUE(moves.has_value());
  EXPECT_EQ(moves->times, 1);
  EXPECT_EQ(moves->bytes, kUnit);
  request_.device_budget_bytes = 4 * kUnit;
  EXPECT_EQ(ExpectMoves(plan_, request_)->times, 0);
  request_.device_budget_bytes = kUnlimitedBytes;
  EXPECT_EQ(ExpectMoves(plan_, request_)->times, 0);
}

}  // namespace
}  // namespace castor
