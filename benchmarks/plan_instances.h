// Steps of twelve kinds over budgets from the smallest to everything, as plans
// of the policies and as linear programs that bound them: for linear_bound.py,
// which solves these and prints the table.
#ifndef CASTOR_BENCHMARKS_PLAN_INSTANCES_H_
#define CASTOR_BENCHMARKS_PLAN_INSTANCES_H_

#include <functional>
#include <vector>

#include "benchmarks/linear_program.h"
#include "memory/plan/plan.h"
#include "memory/plan/policy/policies.h"

namespace castor {

// The program that bounds all plans for a request.
using ProgramOf = std::function<LinearProgram(const PlanRequest& request)>;

// The policies of the product that do not keep all payloads on the device.
std::vector<const PlacementPolicy*> PoliciesThatMove();

// A program's main: FOLDER [--budgets smallest,two,10,50,90] [--only NAME].
// Writes FOLDER/plans.tsv, a row a step and budget with the simulated step of
// each policy in ms, and for each row a program FOLDER/N.mps. Returns the exit
// status.
int WritePlanInstances(int argc, char** argv,
                       const std::vector<const PlacementPolicy*>& policies,
                       const ProgramOf& program_of);

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_PLAN_INSTANCES_H_
