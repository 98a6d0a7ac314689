// The planning function of each policy (PlacementPolicy::plan), and functions
// that they share. For this folder and the planner only.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_
#define CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_

#include <cstdint>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {

Plan PlanCuda(const PlanRequest& request, const Admission& admission);
// Plans as PlanCuda does, but on several ranks uses gradient blocks where that
// is faster.
Plan PlanAllResident(const PlanRequest& request, const Admission& admission);
Plan PlanCpu(const PlanRequest& request, const Admission& admission);
Plan PlanAuto(const PlanRequest& request, const Admission& admission);
// Implements PlacementPolicy::sketch of auto.
Plan SketchAuto(const PlanRequest& request, const Admission& admission);
Plan PlanLru(const PlanRequest& request, const Admission& admission);

// Returns the sides that the request fixes, or else those with the fewest
// optimizer states on the device that the policy admits.
std::vector<Side> AdmittedSides(const PlanRequest& request,
                                const Admission& admission);

// Puts on the device the optimizer states of the first `fewest` chunks of
// `order`, then of those after them that still fit into `bytes`. States of the
// first chunks of Admission::order save the host's updates that the next step
// would wait for longest.
std::vector<Side> SidesWithin(const StepTrace& trace,
                              const std::vector<int64_t>& order, int64_t fewest,
                              double bytes);

// Returns the free bytes at each moment beside NeededDeviceBytes with these
// sides; none is negative if the sides were admitted.
std::vector<int64_t> FreeBesideNeeds(const PlanRequest& request,
                                     const std::vector<Side>& side);

// Returns those of `blocks` that fit into `room`, chosen by ascending lifetime,
// in the order given.
std::vector<GradientBlock> GradientBlocksThatFit(
    Room room, const std::vector<GradientBlock>& blocks);

// Returns those of `sums` that fit, with the gradient blocks that they need,
// beside NeededDeviceBytes and within `most_bytes` of all sums together; in the
// order given.
std::vector<PossibleSum> DeviceSumsThatFit(const PlanRequest& request,
                                           const std::vector<Side>& side,
                                           const std::vector<PossibleSum>& sums,
                                           double most_bytes);

// Takes from `room` the bytes that a device sum costs: its own, the gradient
// blocks that it needs, and its payload at its last reduce.
void TakeDeviceSum(const StepTrace& trace, const PossibleSum& possible,
                   Room& room);

// Makes the cpu policy's plan for any sides: the baseline that auto must beat,
// and the replacement of a plan that fails its proof.
Plan PlanOneOperatorAhead(const PlanRequest& request,
                          const std::vector<Side>& side);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_
