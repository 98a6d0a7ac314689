// What must fit before there is a plan at all: smallest budgets, refusals.
#ifndef CASTOR_MEMORY_PLAN_ADMISSION_H_
#define CASTOR_MEMORY_PLAN_ADMISSION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "memory/plan/plan.h"

namespace castor {

// Device bytes that must be there at each moment, whatever the plan: reserved
// bytes, device-side optimizer states, non-model bytes and what the operator
// uses. O(total uses).
std::vector<int64_t> NeededDeviceBytes(const PlanRequest& request,
                                       const std::vector<Side>& side);

// The largest of them, or the reserved bytes and optimizer states alone.
int64_t PeakNeededDeviceBytes(const PlanRequest& request,
                              const std::vector<Side>& side);

// Host bytes, at every moment: reserved, every chunk's home and the host-side
// optimizer states.
int64_t HostBytes(const PlanRequest& request, const std::vector<Side>& side);

// The chunks with optimizer states, by first use: the order in which their
// states move to the device. The update of what is used first keeps the next
// step waiting longest.
std::vector<int64_t> DeviceSideOrder(const StepTrace& trace);

// The first `count` chunks of `order` on the device's side.
std::vector<Side> SidesOf(const StepTrace& trace,
                          const std::vector<int64_t>& order, int64_t count);

// The sides that a policy gives chunks, unless the request fixes them.
enum class SideChoice : uint8_t {
  kHost,    // the host's, all of them
  kDevice,  // the device's, all that have optimizer states
  kChosen,  // in training as the policy likes, in evaluation the host's
};

// What a policy cannot do without.
struct AdmissionRule {
  SideChoice sides = SideChoice::kHost;
  // Whether all payloads are resident at every moment, or only those that its
  // operator uses must be.
  bool keeps_all_payloads = false;
};

inline constexpr AdmissionRule kEverythingOnDevice = {
    .sides = SideChoice::kDevice, .keeps_all_payloads = true};

// What a policy may choose from, or why it has no choice.
struct Admission {
  std::vector<int64_t> order;
  // How many chunks of `order` must have their optimizer states on the device:
  // those for which the host has no room, and all under SideChoice::kDevice.
  // Meaningless with fixed sides.
  int64_t fewest = 0;
  // With `refusal` absent there is a plan.
  std::optional<Refusal> refusal;
  // The least device budget with all else as in the request; kUnlimitedBytes
  // where none would do.
  int64_t smallest_device_budget_bytes = 0;
};

Admission Admit(const AdmissionRule& rule, const PlanRequest& request);

// Where an evaluation can always have the optimizer states while it lasts, if
// `training` is what the steps around it ask for: on the host, but for those
// that the host has no room for.
std::vector<Side> SafeSides(const AdmissionRule& rule,
                            const PlanRequest& training);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_ADMISSION_H_
