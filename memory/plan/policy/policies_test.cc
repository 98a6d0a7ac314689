#include "memory/plan/policy/policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace castor {
namespace {

using ::testing::HasSubstr;

TEST(Policies, HaveNamesAndLettersOfTheirOwn) {
  std::set<absl::string_view> names;
  std::set<char> letters;
  for (const PlacementPolicy& policy : Policies()) {
    EXPECT_FALSE(policy.name.empty());
    EXPECT_TRUE(names.insert(policy.name).second) << policy.name;
    EXPECT_TRUE(letters.insert(policy.letter).second) << policy.name;
    EXPECT_NE(policy.plan, nullptr) << policy.name;
  }
}

TEST(Policies, AreFoundByTheirNames) {
  for (const PlacementPolicy& policy : Policies()) {
    EXPECT_EQ(FindPolicy(policy.name), &policy);
    EXPECT_EQ(*PolicyNamed(policy.name), &policy);
  }
  EXPECT_EQ(FindPolicy("gpu"), nullptr);
  const auto none = PolicyNamed("gpu");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(none.status().message(), HasSubstr("\"gpu\""));
  for (const PlacementPolicy& policy : Policies()) {
    EXPECT_THAT(none.status().message(), HasSubstr(policy.name));
  }
}

// Configurations name cuda, cpu and auto; traces and checkpoints that are there
// have these names.
TEST(Policies, OfConfigurationsKeepTheirNames) {
  std::vector<absl::string_view> names;
  bool others_began = false;
  for (const PlacementPolicy& policy : Policies()) {
    if (policy.in_configurations) names.push_back(policy.name);
    EXPECT_FALSE(others_began && policy.in_configurations) << policy.name;
    others_began |= !policy.in_configurations;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("cuda", "cpu", "auto"));
  EXPECT_EQ(DefaultPolicy(), FindPolicy("auto"));
}

// A policy without a plan of its own for the warm-up ends the chain: the plan
// that is followed then is one that needs no durations.
TEST(Policies, WarmUpWithAPolicyThatNeedsNoOther) {
  for (const PlacementPolicy& policy : Policies()) {
    if (policy.warm_up.empty()) continue;
    const PlacementPolicy* careful = FindPolicy(policy.warm_up);
    ASSERT_NE(careful, nullptr) << policy.name;
    EXPECT_EQ(careful->warm_up, "") << policy.name;
  }
}

}  // namespace
}  // namespace castor
