// The table of placement policies: what must fit before each of them plans, and
// how it plans.
//
// Whoever wants a policy looks it up by its name, or goes through the table;
// nobody outside this folder asks which policy it has. What differs between
// policies is said by their rows.
#ifndef CASTOR_MEMORY_PLAN_POLICY_POLICIES_H_
#define CASTOR_MEMORY_PLAN_POLICY_POLICIES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "memory/plan/admission.h"
#include "memory/plan/plan.h"

namespace castor {

// A row. There is one object for each policy, so that pointers to equal
// policies are equal.
struct PlacementPolicy {
  // In configurations, messages, traces and on command lines.
  absl::string_view name;
  bool in_configurations = true;  // whether a configuration may name it
  char letter = '?';  // in pictures made of characters; no other policy's
  AdmissionRule admission;
  // A pure function: the same request gives the same plan. Finds one for every
  // request that `admission` lets through. Whose the plan is, the caller fills
  // in (Plan::policy).
  Plan (*plan)(const PlanRequest& request, const Admission& admission);
  // The same with a fraction of the effort, for a plan that only tells how good
  // a request is; null: `plan` takes no more.
  Plan (*sketch)(const PlanRequest& request,
                 const Admission& admission) = nullptr;
  // The name of the policy whose plan is followed while durations are measured,
  // where that fits; empty: its own. See WarmUpPolicy in memory/plan/planner.h.
  absl::string_view warm_up;
};

// All rows: those that configurations may name, from the simplest policy to the
// one that looks farthest ahead, then the others.
absl::Span<const PlacementPolicy> Policies();

// That of a configuration which names none.
const PlacementPolicy* DefaultPolicy();

// Null: there is none of that name.
const PlacementPolicy* FindPolicy(absl::string_view name);

// The same for a name that a user gave. InvalidArgument: there is none.
absl::StatusOr<const PlacementPolicy*> PolicyNamed(absl::string_view name);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_POLICIES_H_
