// How each policy plans what was admitted (PlacementPolicy::plan), and what
// they share. For this folder and the planner.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_
#define CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_

#include <cstdint>
#include <vector>

#include "memory/plan/admission.h"
#include "memory/plan/plan.h"
#include "memory/plan/room.h"
#include "memory/plan/use_index.h"

namespace castor {

Plan PlanCuda(const PlanRequest& request, const Admission& admission);
// The same, on several ranks with gradient blocks beside payloads where that is
// faster.
Plan PlanAllResident(const PlanRequest& request, const Admission& admission);
Plan PlanCpu(const PlanRequest& request, const Admission& admission);
Plan PlanAuto(const PlanRequest& request, const Admission& admission);
// PlacementPolicy::sketch of auto.
Plan SketchAuto(const PlanRequest& request, const Admission& admission);
Plan PlanLru(const PlanRequest& request, const Admission& admission);

// The sides that were admitted: those that the request fixes, or with as few
// optimizer states on the device as the policy can have.
std::vector<Side> AdmittedSides(const PlanRequest& request,
                                const Admission& admission);

// The room at each moment beside what must be there with these sides. It is not
// negative if they were admitted.
std::vector<int64_t> FreeBesideNeeds(const PlanRequest& request,
                                     const std::vector<Side>& side);

// Those of `blocks` for which there is room in `room`, the ones that are there
// for the shortest time first; in the order given.
std::vector<GradientBlock> GradientBlocksThatFit(
    Room room, const std::vector<GradientBlock>& blocks);

// Those of `sums` for which there is room beside what must be there, with the
// gradient blocks that they need, within `most_bytes` of all sums together; in
// the order given.
std::vector<PossibleSum> DeviceSumsThatFit(const PlanRequest& request,
                                           const std::vector<Side>& side,
                                           const std::vector<PossibleSum>& sums,
                                           double most_bytes);

// Takes from `room` what is there because a sum is on the device: itself, the
// gradient blocks that it needs, and its payload when the sum gets whole.
void TakeDeviceSum(const StepTrace& trace, const PossibleSum& possible,
                   Room& room);

// The cpu policy's schedule for any sides. It is what auto must beat, and what
// takes the place of a plan that fails its proof.
Plan PlanOneOperatorAhead(const PlanRequest& request,
                          const std::vector<Side>& side);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_
