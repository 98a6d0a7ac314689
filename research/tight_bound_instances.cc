// Plans of twelve kinds of steps over budgets, those of other ways of placing
// chunks (baseline_policies.h) among them, and for each the program that bounds
// it (tight_bound.h).
//
//   bazel run -c opt //research:tight_bound_instances -- FOLDER
//       [--budgets smallest,two,10,50,90] [--only NAME]
#include <vector>

#include "benchmarks/plan_instances.h"
#include "research/baseline_policies.h"
#include "research/tight_bound.h"

int main(int argc, char** argv) {
  std::vector<const castor::PlacementPolicy*> policies =
      castor::PoliciesThatMove();
  for (const castor::PlacementPolicy& policy : castor::BaselinePolicies()) {
    policies.push_back(&policy);
  }
  return castor::WritePlanInstances(
      argc, argv, policies, [](const castor::PlanRequest& request) {
        return castor::TightBound(request).program();
      });
}
