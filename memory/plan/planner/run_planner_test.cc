#include "memory/plan/planner/run_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <variant>

#include "base/units.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const AdmissionRule& RuleOf(absl::string_view name) {
  return FindPolicy(name)->admission;
}

// A chunk of 256 bytes whose states take 1536, in training with 300 bytes of
// activations, in evaluation with 500.
class OneChunkTest : public ::testing::Test {
 protected:
  OneChunkTest()
      : training_(TraceBuilder()
                      .Chunk(256, 1536)
                      .Read({0}, 300)
                      .Write({0}, 300)
                      .Reduce(0)
                      .Update(0)
                      .Build()),
        evaluation_(TraceBuilder()
                        .Evaluation()
                        .Chunk(256, 1536)
                        .Read({0}, 500)
                        .Build()) {
    run_.training.trace = &training_;
    run_.evaluations.resize(1);
    run_.evaluations[0].trace = &evaluation_;
  }

  RunBudgets Budgets(const AdmissionRule& rule) const {
    return FindRunBudgets(rule, [&](const AdmissionRule&) { return run_; });
  }

  StepTrace training_, evaluation_;
  RunRequest run_;
};

TEST_F(OneChunkTest, NeedsWhatItsHungriestStepNeeds) {
  EXPECT_EQ(SmallestRunBudget(RuleOf("cpu"), run_), 256 + 500);
  EXPECT_EQ(SmallestRunBudget(RuleOf("auto"), run_), 256 + 500);
  EXPECT_EQ(SmallestRunBudget(RuleOf("cuda"), run_), 256 + 1536 + 500);
  run_.evaluations.clear();
  EXPECT_EQ(SmallestRunBudget(RuleOf("cpu"), run_), 256 + 300);
}

TEST_F(OneChunkTest, IsRefusedForTheStepThatDoesNotFit) {
  run_.training.device_budget_bytes = 256 + 299;
  std::optional<RefusedStep> refused = RefuseRun(RuleOf("cpu"), run_);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->request.trace, &training_);
  EXPECT_EQ(refused->refusal.peak_bytes, 300);
  // It would do no good to name 556, which evaluation does not fit.
  EXPECT_EQ(refused->refusal.smallest_device_budget_bytes, 256 + 500);

  run_.training.device_budget_bytes = 256 + 499;
  refused = RefuseRun(RuleOf("cpu"), run_);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->request.trace, &evaluation_);
  EXPECT_EQ(refused->request.device_budget_bytes, 256 + 499);
  EXPECT_EQ(refused->refusal.peak_bytes, 500);
  EXPECT_EQ(refused->refusal.smallest_device_budget_bytes, 256 + 500);
  EXPECT_FALSE(FitsRun(RuleOf("cpu"), run_));

  run_.training.device_budget_bytes = 256 + 500;
  EXPECT_FALSE(RefuseRun(RuleOf("cpu"), run_).has_value());
  EXPECT_TRUE(FitsRun(RuleOf("cpu"), run_));
}

TEST_F(OneChunkTest, NeedsWhatItsStepsOfOtherShapesNeed) {
  const StepTrace longer = TraceBuilder()
                               .Chunk(256, 1536)
                               .Read({0}, 600)
                               .Write({0}, 300)
                               .Reduce(0)
                               .Update(0)
                               .Build();
  run_.other_training.resize(2);
  run_.other_training[0].trace = &training_;
  run_.other_training[1].trace = &longer;
  EXPECT_EQ(SmallestRunBudget(RuleOf("cpu"), run_), 256 + 600);
  EXPECT_EQ(Budgets(RuleOf("auto")).everything, 256 + 1536 + 600);
  for (const int64_t budget : {256 + 600, 256 + 599}) {
    run_.training.device_budget_bytes = budget;
    for (PlanRequest& other : run_.other_training) {
      other.device_budget_bytes = budget;
    }
    const auto refused = RefuseRun(RuleOf("cpu"), run_);
    EXPECT_EQ(FitsRun(RuleOf("cpu"), run_), !refused.has_value());
    ASSERT_EQ(refused.has_value(), budget == 256 + 599);
    if (!refused.has_value()) continue;
    EXPECT_EQ(refused->request.trace, &longer);
    EXPECT_EQ(refused->refusal.peak_bytes, 600);
    EXPECT_EQ(refused->refusal.smallest_device_budget_bytes, 256 + 600);
  }
}

TEST_F(OneChunkTest, HasInEvaluationTheHostBudgetOfTraining) {
  run_.training.host_budget_bytes = 256 + 1535;
  const std::optional<RefusedStep> refused = RefuseRun(RuleOf("cpu"), run_);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->refusal.tier, "host");
  EXPECT_EQ(refused->refusal.smallest_host_budget_bytes, 256 + 1536);
  // No device budget makes up for it, so the refusal's own stays.
  EXPECT_EQ(SmallestRunBudget(RuleOf("cpu"), run_), kUnlimitedBytes);
  // The states are on the device, and stay there while it evaluates.
  EXPECT_EQ(SmallestRunBudget(RuleOf("auto"), run_), 256 + 1536 + 500);
}

TEST_F(OneChunkTest, WithoutALimitTakesWhatEverythingTakes) {
  EXPECT_EQ(Budgets(RuleOf("auto")).unlimited(), 256 + 1536 + 500);
  // Half of the bytes beyond 556 have to hold the states.
  run_.training.host_budget_bytes = 256;
  run_.training.gpu_margin_mem_ratio = 0.5;
  const RunBudgets budgets = Budgets(RuleOf("auto"));
  EXPECT_EQ(budgets.smallest, 556 + 2 * 1536);
  EXPECT_EQ(budgets.everything, 256 + 1536 + 500);
  EXPECT_EQ(budgets.unlimited(), budgets.smallest);
  // Without any share for them none is enough.
  run_.training.gpu_margin_mem_ratio = 0;
  EXPECT_EQ(Budgets(RuleOf("auto")).smallest, kUnlimitedBytes);
  EXPECT_EQ(Budgets(RuleOf("auto")).unlimited(), 256 + 1536 + 500);
}

TEST_F(OneChunkTest, IsRemediedByTheDefaultPolicyWhereThatFits) {
  const auto fits = [&](const PlacementPolicy* policy) {
    return FitsRun(policy->admission, run_);
  };
  run_.training.device_budget_bytes = 256 + 500;
  EXPECT_THAT(PolicyRemedies(FindPolicy("cuda"), fits),
              ElementsAre("memory.placement_policy \"auto\""));
  EXPECT_THAT(PolicyRemedies(DefaultPolicy(), fits), IsEmpty());
  run_.training.device_budget_bytes = 256 + 499;
  EXPECT_THAT(PolicyRemedies(FindPolicy("cuda"), fits), IsEmpty());
  // Where the host cannot hold the homes no device budget helps, unlimited
  // neither: no policy is a remedy.
  run_.training.device_budget_bytes = kUnlimitedBytes;
  run_.training.host_budget_bytes = 255;
  EXPECT_THAT(PolicyRemedies(FindPolicy("cpu"), fits), IsEmpty());
}

// At the smallest budget every step has a plan; a byte less, and one has none.
RC_GTEST_PROP(RunPlanner, AdmitsWhatCanBePlanned, ()) {
  ArbitraryTraceOptions options;
  options.chunks = *rc::gen::inRange(1, 6);
  options.operators = *rc::gen::inRange(1, 8);
  options.micro_batches = *rc::gen::inRange(1, 3);
  const StepTrace training =
      ArbitraryTrace(options, *rc::gen::arbitrary<uint64_t>());
  options.training = false;
  StepTrace evaluation =
      ArbitraryTrace(options, *rc::gen::arbitrary<uint64_t>());
  evaluation.chunks = training.chunks;
  RunRequest run;
  run.training.trace = &training;
  run.training.host_budget_bytes =
      *rc::gen::element(int64_t{30000}, kUnlimitedBytes);
  run.training.gpu_margin_mem_ratio = *rc::gen::element(0.0, 0.4, 1.0);
  run.evaluations.resize(1);
  run.evaluations[0].trace = &evaluation;
  for (const PlacementPolicy& policy : Policies()) {
    const int64_t least = SmallestRunBudget(policy.admission, run);
    if (least == kUnlimitedBytes) continue;
    for (const int64_t budget : {least, least - 1}) {
      run.training.device_budget_bytes = budget;
      PlanRequest safe = run.evaluations[0];
      safe.device_budget_bytes = budget;
      safe.host_budget_bytes = run.training.host_budget_bytes;
      safe.fixed_side = SafeSides(policy.admission, run.training);
      const bool planned =
          std::holds_alternative<Plan>(MakePlan(&policy, run.training)) &&
          std::holds_alternative<Plan>(MakePlan(&policy, safe));
      RC_ASSERT(planned == (budget == least));
      RC_ASSERT(FitsRun(policy.admission, run) == planned);
      RC_ASSERT(RefuseRun(policy.admission, run).has_value() != planned);
    }
  }
}

}  // namespace
}  // namespace castor
