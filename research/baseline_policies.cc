#include "research/baseline_policies.h"

#include "research/gemini_policy.h"
#include "research/patrickstar_policy.h"
#include "research/protrain_policy.h"

namespace castor {
namespace {

constexpr PlacementPolicy kBaselines[] = {
    {.name = "gemini",
     .in_configurations = false,
     .letter = 'G',
     .admission = {.sides = SideChoice::kChosen},
     .plan = PlanGemini,
     .warm_up = "cpu"},
    {.name = "patrickstar",
     .in_configurations = false,
     .letter = 'P',
     .admission = {.sides = SideChoice::kChosen},
     .plan = PlanPatrickStar,
     .warm_up = "cpu"},
    {.name = "protrain",
     .in_configurations = false,
     .letter = 'T',
     .admission = {.sides = SideChoice::kChosen},
     .plan = PlanProTrain,
     .warm_up = "cpu"},
};

}  // namespace

absl::Span<const PlacementPolicy> BaselinePolicies() { return kBaselines; }

const PlacementPolicy* FindBaseline(absl::string_view name) {
  for (const PlacementPolicy& policy : kBaselines) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

}  // namespace castor
