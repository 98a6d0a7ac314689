// Proves a plan before it runs.
//
// CheckPlan replays a plan over two consecutive steps with its own bookkeeping,
// sharing no code with the planner, and returns the first violation:
//
//  1. Room: at every moment reserved bytes + device-side optimizer states +
//     resident payloads + gradient blocks + sums on the device + the operator's
//     non-model peak <= the device budget. After every fetch and every making
//     of a gradient block or a sum in actions[t] likewise, with the smaller of
//     the peaks of the operators before and after it (t - 1 and t, cyclically),
//     which bounds the bytes that live between them.
//  2. Presence: every chunk of an operator is resident when it runs; kReduce
//     and kUpdate of device-side chunks need their chunk resident, kReduce
//     and kUpdate of host-side chunks need it absent and its home valid.
//  3. Nothing lost: no Drop of a dirty payload, no Fetch of a payload whose
//     home is stale, is resident already, or is waiting for its update on the
//     host (between the last kReduce and kUpdate); no CopyBack of a clean one.
//     Gradients are whole: all of a micro batch's of one chunk are in its
//     payload's places, or all in its gradient block. Such a block is made for
//     a host-side chunk in training, where neither the payload nor the home has
//     gradients. It is sent before the chunk's kReduce, for which the payload
//     may then be resident, except for the last one, since the update makes the
//     payload stale. Between the sending and the kReduce nothing writes the
//     chunk's gradients and nothing fetches the chunk, since gradients are in
//     its home. The block is dropped after it was sent, before the next
//     gradients of its chunk are written. Sums are whole, too. A device sum is
//     made for a host-side chunk in training whose trace says how large it is,
//     before the chunk's first kReduce of the step. While it exists the device
//     adds up, so no gradients are sent: for a kReduce that is not the last
//     they are in a gradient block, for the last one in the payload, which is
//     resident, and which no operator may use from then on. The sum is sent
//     after the last kReduce and before the kUpdate, and dropped after that, in
//     the same step. A speculative update is of a host-side chunk in training,
//     once a step, after its last kReduce (and after its sum on the device was
//     sent). From then until its kUpdate nothing fetches the chunk.
//  4. Cyclic: the state after the step is the state before it.
//  5. Host room: homes + host-side optimizer states + reserved + banks of
//     chunks with a speculative update <= the budget, and with any of these <=
//     SpeculationRequest::host_bytes.
//  6. Form: sizes of vectors, ids in range, frozen chunks on no side's update.
//  7. Addresses, where they are planned: memory/plan/check/address_checker.h.
#ifndef CASTOR_MEMORY_PLAN_CHECK_PLAN_CHECKER_H_
#define CASTOR_MEMORY_PLAN_CHECK_PLAN_CHECKER_H_

#include "absl/status/status.h"
#include "memory/plan/plan.h"

namespace castor {

// OK, or FailedPrecondition naming moment, operator, chunk and bytes.
absl::Status CheckPlan(const Plan& plan, const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_CHECK_PLAN_CHECKER_H_
