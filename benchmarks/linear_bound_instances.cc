// Plans of twelve kinds of steps over budgets, and for each the linear
// relaxation that bounds it (linear_bound.h).
//
//   bazel run -c opt //benchmarks:linear_bound_instances -- FOLDER
//       [--budgets smallest,two,10,50,90] [--only NAME]
#include "benchmarks/linear_bound.h"
#include "benchmarks/plan_instances.h"

int main(int argc, char** argv) {
  return castor::WritePlanInstances(
      argc, argv, castor::PoliciesThatMove(),
      [](const castor::PlanRequest& request) {
        return castor::LinearBound(request).program();
      });
}
