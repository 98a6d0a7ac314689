// The table of placement policies: for each one the rule of admission and the
// function that plans.
//
// Code outside this folder looks a policy up by its name or goes through the
// table, and never tests which policy it has: all differences are in the rows.
#ifndef CASTOR_MEMORY_PLAN_POLICY_POLICIES_H_
#define CASTOR_MEMORY_PLAN_POLICY_POLICIES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"

namespace castor {

// A row of the table. Each policy is one object, so policies can be compared by
// their pointers.
struct PlacementPolicy {
  // Its name in configurations, messages, traces and on command lines.
  absl::string_view name;
  bool in_configurations = true;  // if a configuration may name it
  char letter = '?';              // in text charts; unique
  AdmissionRule admission;
  // Makes a plan for any request that `admission` lets through. A pure
  // function: the same request gives the same plan. The caller fills in
  // Plan::policy.
  Plan (*plan)(const PlanRequest& request, const Admission& admission);
  // Makes a plan with a fraction of the effort, which only tells how good a
  // request is. Null if `plan` is as fast.
  Plan (*sketch)(const PlanRequest& request,
                 const Admission& admission) = nullptr;
  // The name of the policy whose plan is followed while durations are measured,
  // if it fits; empty: this one. See WarmUpPolicy in
  // memory/plan/planner/planner.h.
  absl::string_view warm_up;
};

// Returns all rows: those that configurations may name, from the simplest
// policy to the one that looks farthest ahead, then the others.
absl::Span<const PlacementPolicy> Policies();

// Returns the policy of a configuration that names none.
const PlacementPolicy* DefaultPolicy();

// Returns null if there is no policy of that name.
const PlacementPolicy* FindPolicy(absl::string_view name);

// Returns the policy of a name that a user gave. InvalidArgument: there is
// none.
absl::StatusOr<const PlacementPolicy*> PolicyNamed(absl::string_view name);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_POLICIES_H_
