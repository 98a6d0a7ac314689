// A step of two chunks and a valid plan for it, which tests of the checker
// break.
#ifndef CASTOR_MEMORY_PLAN_CHECK_PLAN_CHECKER_FOR_TEST_H_
#define CASTOR_MEMORY_PLAN_CHECK_PLAN_CHECKER_FOR_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "memory/plan/check/plan_checker.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {

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
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(message));
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

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_CHECK_PLAN_CHECKER_FOR_TEST_H_
