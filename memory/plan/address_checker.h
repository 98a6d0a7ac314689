// Proves a plan's addresses (Plan::addresses) before it runs.
//
// CheckAddresses replays the issue of two consecutive steps with its own
// bookkeeping, sharing no code with who finds addresses, and returns the first
// violation:
//
//  1. Form: an address for each block that is made, no more; non-model blocks
//     with the bytes that the trace says. Activations that go to the host are
//     made of the tensors, and of as many bytes, as their chunk has; each
//     tensor that comes back has a block of its own again.
//  2. Place: each is a multiple of kBlockAlignment, at or above `begin`, below
//     which there is room for reserved bytes and the device's optimizer states;
//     its last byte within the budget.
//  3. No overlap: when a block is made, none that was not freed before has any
//     of its bytes. What is freed carries the fence of its last use, and who
//     takes the bytes waits for it (memory/exec/arena.h): so first uses are
//     ordered behind the last ones of all whose bytes they take, copies to the
//     host among them, around the step's end too, and fences name nothing that
//     is not queued yet.
//  4. Cyclic: after the step each resident payload is where it was before it.
#ifndef CASTOR_MEMORY_PLAN_ADDRESS_CHECKER_H_
#define CASTOR_MEMORY_PLAN_ADDRESS_CHECKER_H_

#include "absl/status/status.h"
#include "memory/plan/plan.h"

namespace castor {

// OK, or FailedPrecondition naming moment, block and bytes. OK without
// addresses. `plan` must have passed the rest of CheckPlan, which calls this.
absl::Status CheckAddresses(const Plan& plan, const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_ADDRESS_CHECKER_H_
