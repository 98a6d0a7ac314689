// Proves a plan's addresses (Plan::addresses) before it runs.
//
// CheckAddresses replays the issue of two consecutive steps with its own
// bookkeeping, sharing no code with the search for addresses, and returns the
// first violation:
//
//  1. Form: there is exactly one address for each block that is made; non-model
//     blocks have the bytes that the trace says. Activations that go to the
//     host are made of the tensors, and of as many bytes, as their chunk has;
//     each tensor that comes back has a block of its own again.
//  2. Place: each address is a multiple of kBlockAlignment and at least
//     `begin`, below which reserved bytes and the device's optimizer states
//     have room; the block ends within the budget.
//  3. No overlap: when a block is made, no live block has any of its bytes.
//     Freed bytes carry the fence of their last use, and the block that takes
//     them waits for it (memory/exec/arena.h). So first uses are ordered behind
//     the last uses of the same bytes, copies to the host among them, around
//     the step's end too, and fences name only work that is queued.
//  4. Cyclic: after the step each resident payload is where it was before it.
#ifndef CASTOR_MEMORY_PLAN_CHECK_ADDRESS_CHECKER_H_
#define CASTOR_MEMORY_PLAN_CHECK_ADDRESS_CHECKER_H_

#include "absl/status/status.h"
#include "memory/plan/plan.h"

namespace castor {

// OK, or FailedPrecondition naming moment, block and bytes. OK without
// addresses. `plan` must have passed the rest of CheckPlan, which calls this.
absl::Status CheckAddresses(const Plan& plan, const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_CHECK_ADDRESS_CHECKER_H_
