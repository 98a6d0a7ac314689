#include "memory/plan/policy/schedules.h"

namespace castor {

std::vector<Side> AdmittedSides(const PlanRequest& request,
                                const Admission& admission) {
  return request.fixed_side.empty()
             ? SidesOf(*request.trace, admission.order, admission.fewest)
             : request.fixed_side;
}

std::vector<int64_t> FreeBesideNeeds(const PlanRequest& request,
                                     const std::vector<Side>& side) {
  std::vector<int64_t> free_bytes = NeededDeviceBytes(request, side);
  for (int64_t& bytes : free_bytes) {
    bytes = request.device_budget_bytes - bytes;
  }
  return free_bytes;
}

}  // namespace castor
