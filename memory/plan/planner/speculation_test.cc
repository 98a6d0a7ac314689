#include "memory/plan/planner/speculation.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/plan/check/plan_checker.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

// Three chunks of 1000 bytes on the host's side, on a bus of a byte per
// nanosecond, which are read in their order and written in the reverse of it.
// Each operator takes 2000 ns, each update 1500.
//
//   compute  w2 6000-8000  w1 8000-10000  w0 10000-12000
//   bus out              c2 8000-9000   c1 10000-11000   c0 12000-13000
//   host                       9000           11000        13000: the norm
//   host, all ahead          u2 9000-10500  u1 11000-12500 u0 13000-14500
class SpeculationTest : public ::testing::Test {
 protected:
  SpeculationTest() {
    trace_.global_norm = true;
    request_ = RequestFor(trace_);
    request_.speculation.host_bytes = kUnlimitedBytes;
    plan_.signature = trace_.signature;
    plan_.side.assign(3, Side::kHost);
    for (int64_t c = 0; c < 3; ++c)
      plan_.initial.push_back({ChunkId(c), false});
    plan_.actions.resize(trace_.ops.size() + 1);
    for (int64_t c = 0; c < 3; ++c) {
      const int64_t reduce = 8 - 2 * c;
      plan_.actions[reduce] = {CopyBack(c, reduce), Drop(c, reduce)};
      plan_.actions[12].push_back(Fetch(c, c));
    }
  }

  std::vector<int64_t> Ahead() const {
    EXPECT_TRUE(CheckPlan(plan_, request_).ok()) << CheckPlan(plan_, request_);
    std::vector<int64_t> chunks;
    for (const auto& actions : plan_.actions) {
      for (const Action& action : actions) {
        if (action.kind == ActionKind::kSpeculate) {
          chunks.push_back(action.chunk.value);
        }
      }
    }
    return chunks;
  }
  int64_t StepNs(bool misses = false) const {
    return SimulatePlan(plan_, request_, {}, misses).step_ns;
  }

  StepTrace trace_ = TraceBuilder()
                         .Chunk(1000, 3000)
                         .Chunk(1000, 3000)
                         .Chunk(1000, 3000)
                         .Read({0}, 0, 2000)
                         .Read({1}, 0, 2000)
                         .Read({2}, 0, 2000)
                         .Write({2}, 0, 2000)
                         .Reduce(2)  // 4
                         .Write({1}, 0, 2000)
                         .Reduce(1)  // 6
                         .Write({0}, 0, 2000)
                         .Reduce(0)  // 8
                         .Update(0, 1500)
                         .Update(1, 1500)
                         .Update(2, 1500)
                         .Build();
  PlanRequest request_;
  Plan plan_;
};

TEST_F(SpeculationTest, RunsNothingAheadThatNobodyWaitsFor) {
  // The norm at 13000, updates until 14500, 16000, 17500 and each fetch 1000
  // after its own, so reads from 15500, one behind the other: a step of 15500.
  EXPECT_EQ(StepNs(), 15500);
  SpeculateWhereItPays(request_, &plan_);
  // The next step waits for chunk 0's update, which is as late as ever.
  EXPECT_TRUE(Ahead().empty());
}

TEST_F(SpeculationTest, RunsAheadWhatTheNextStepWaitsFor) {
  // Updates that end at 18000, 23000 and 28000 keep each read waiting.
  for (int t = 9; t < 12; ++t) trace_.ops[t].host_duration_ns = 5000;
  const int64_t without_ns = StepNs();
  SpeculateWhereItPays(request_, &plan_);
  ASSERT_FALSE(Ahead().empty());
  EXPECT_EQ(Ahead()[0], 2);
  EXPECT_LT(StepNs(), without_ns);
  plan_ = WithoutSpeculation(plan_);
  EXPECT_EQ(NumSpeculativeUpdates(plan_), 0);
  EXPECT_EQ(StepNs(), without_ns);
  // Homes of 1024, states of 3072: 12288; a bank takes states and gradients,
  // 4000, which is 4096.
  request_.host_budget_bytes = 12288 + 4095;
  SpeculateWhereItPays(request_, &plan_);
  EXPECT_TRUE(Ahead().empty());
  ++request_.host_budget_bytes;
  SpeculateWhereItPays(request_, &plan_);
  EXPECT_EQ(Ahead(), std::vector<int64_t>{2});
}

TEST_F(SpeculationTest, RunsNothingAheadThatIsMostlyInVain) {
  for (int t = 9; t < 12; ++t) trace_.ops[t].host_duration_ns = 5000;
  const int64_t without_ns = StepNs();
  request_.speculation.miss_rate = 1;
  SpeculateWhereItPays(request_, &plan_);
  EXPECT_TRUE(Ahead().empty());
  // In vain, a step is no shorter than without.
  request_.speculation.miss_rate = 0;
  SpeculateWhereItPays(request_, &plan_);
  ASSERT_FALSE(Ahead().empty());
  EXPECT_GE(StepNs(/*misses=*/true), without_ns);
}

TEST_F(SpeculationTest, RunsNothingAheadThatWaitsForNoNorm) {
  request_.speculation.least_gain = -1;
  trace_.global_norm = false;
  SpeculateWhereItPays(request_, &plan_);
  EXPECT_TRUE(Ahead().empty());
  trace_.global_norm = true;
  request_.speculation.host_bytes = 0;
  SpeculateWhereItPays(request_, &plan_);
  EXPECT_TRUE(Ahead().empty());
  request_.speculation.host_bytes = kUnlimitedBytes;
  SpeculateWhereItPays(request_, &plan_);
  EXPECT_EQ(Ahead(), (std::vector<int64_t>{2, 1, 0}));
}

TEST_F(SpeculationTest, CountsBanks) {
  request_.speculation.least_gain = -1;
  const int64_t without = SimulatePlan(plan_, request_).host_bytes;
  SpeculateWhereItPays(request_, &plan_);
  EXPECT_EQ(SimulatePlan(plan_, request_).host_bytes, without + 3 * 4096);
}

}  // namespace
}  // namespace castor
