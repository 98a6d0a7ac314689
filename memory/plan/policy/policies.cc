#include "memory/plan/policy/policies.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "memory/plan/policy/schedules.h"

namespace castor {
namespace {

constexpr PlacementPolicy kPolicies[] = {
    // Everything is on the device, always. No action in the steady state.
    {.name = "cuda",
     .letter = 'g',
     .admission = kEverythingOnDevice,
     .plan = PlanCuda,
     .warm_up = ""},
    // Payloads and optimizer states are at home on the host. On the device is
    // only what the operator at hand uses, and with `prefetch` what the next
    // one needs, where there is room.
    {.name = "cpu",
     .letter = 'c',
     .admission = {.sides = SideChoice::kHost},
     .plan = PlanCpu,
     .warm_up = ""},
    // The chunk with the farthest next use leaves; fetches are issued as early
    // as room allows; the rest of the budget holds optimizer states.
    {.name = "auto",
     .letter = 'a',
     .admission = {.sides = SideChoice::kChosen},
     .plan = PlanAuto,
     .sketch = SketchAuto,
     .warm_up = "cpu"},
    // The least recently used chunk leaves; optimizer states are on the host. A
    // baseline that shows the value of knowing the future.
    {.name = "lru",
     .in_configurations = false,
     .letter = 'l',
     .admission = {.sides = SideChoice::kHost},
     .plan = PlanLru,
     .warm_up = "cpu"},
};

}  // namespace

absl::Span<const PlacementPolicy> Policies() { return kPolicies; }

const PlacementPolicy* DefaultPolicy() { return FindPolicy("auto"); }

const PlacementPolicy* FindPolicy(absl::string_view name) {
  for (const PlacementPolicy& policy : kPolicies) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

absl::StatusOr<const PlacementPolicy*> PolicyNamed(absl::string_view name) {
  const PlacementPolicy* policy = FindPolicy(name);
  if (policy != nullptr) return policy;
  std::string names;
  for (const PlacementPolicy& row : kPolicies) {
    const bool last = &row == &Policies().back();
    absl::StrAppend(&names,
                    names.empty() ? ""
                    : last        ? " and "
                                  : ", ",
                    row.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no placement policy \"", name, "\"; there are ", names));
}

}  // namespace castor
