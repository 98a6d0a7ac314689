// Proves a plan before it runs.
//
// CheckPlan replays a plan over two consecutive steps with its own bookkeeping,
// sharing no code with the planner, and returns the first violation:
//
//  1. Room: at every moment reserved bytes + device-side optimizer states +
//     resident payloads + the operator's non-model peak <= the device budget.
//     After every fetch in actions[t] likewise, with the smaller of the peaks
//     of the operators before and after it (t - 1 and t, cyclically), which
//     bounds what lives between them.
//  2. Presence: every chunk of an operator is resident when it runs; kReduce
//     and kUpdate of device-side chunks need their chunk resident, kReduce
//     and kUpdate of host-side chunks need it absent and its home valid.
//  3. Nothing lost: no Drop of a dirty payload, no Fetch of a payload whose
//     home is stale, is resident already, or is waiting for its update on the
//     host (between the last kReduce and kUpdate); no CopyBack of a clean one.
//  4. Cyclic: the state after the step is the state before it.
//  5. Host room: homes + host-side optimizer states + reserved <= the budget.
//  6. Form: sizes of vectors, ids in range, frozen chunks on no side's update.
#ifndef CASTOR_MEMORY_PLAN_PLAN_CHECKER_H_
#define CASTOR_MEMORY_PLAN_PLAN_CHECKER_H_

#include "absl/status/status.h"
#include "memory/plan/plan.h"

namespace castor {

// OK, or FailedPrecondition naming moment, operator, chunk and bytes.
absl::Status CheckPlan(const Plan& plan, const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_PLAN_CHECKER_H_
