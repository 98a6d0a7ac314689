// Admission: decides before planning whether a step can fit, and computes
// smallest budgets and refusals.
#ifndef CASTOR_MEMORY_PLAN_BOUNDS_ADMISSION_H_
#define CASTOR_MEMORY_PLAN_BOUNDS_ADMISSION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "memory/plan/plan.h"

namespace castor {

// Returns for each moment the device bytes that every plan needs: reserved
// bytes, device-side optimizer states, non-model bytes and the chunks that the
// operator uses. O(total uses).
std::vector<int64_t> NeededDeviceBytes(const PlanRequest& request,
                                       const std::vector<Side>& side);

// Returns the largest of them; for a step without operators the reserved bytes
// and optimizer states.
int64_t PeakNeededDeviceBytes(const PlanRequest& request,
                              const std::vector<Side>& side);

// Returns the host bytes that are needed at every moment: reserved bytes, every
// chunk's home and the host-side optimizer states.
int64_t HostBytes(const PlanRequest& request, const std::vector<Side>& side);

// Returns the chunks with optimizer states, by first use: the order in which
// states are moved to the device. The next step waits longest for the update of
// the chunk that it uses first.
std::vector<int64_t> DeviceSideOrder(const StepTrace& trace);

// Returns sides with the first `count` chunks of `order` on the device.
std::vector<Side> SidesOf(const StepTrace& trace,
                          const std::vector<int64_t>& order, int64_t count);

// The sides that a policy gives chunks, unless the request fixes them.
enum class SideChoice : uint8_t {
  kHost,    // the host's, all of them
  kDevice,  // the device's, all that have optimizer states
  kChosen,  // in training as the policy likes, in evaluation the host's
};

// The least that a policy needs.
struct AdmissionRule {
  SideChoice sides = SideChoice::kHost;
  // True if all payloads must be resident at every moment, not only those that
  // its operator uses.
  bool keeps_all_payloads = false;
};

inline constexpr AdmissionRule kEverythingOnDevice = {
    .sides = SideChoice::kDevice, .keeps_all_payloads = true};

// The choices that are open to a policy, or the refusal.
struct Admission {
  std::vector<int64_t> order;
  // The number of chunks of `order` that must have their optimizer states on
  // the device, since the host has no room; all under SideChoice::kDevice.
  // Meaningless with fixed sides.
  int64_t fewest = 0;
  // Absent if there is a plan.
  std::optional<Refusal> refusal;
  // The smallest device budget that would fit with all else as in the request;
  // kUnlimitedBytes if none would.
  int64_t smallest_device_budget_bytes = 0;
};

Admission Admit(const AdmissionRule& rule, const PlanRequest& request);

// Returns sides on which an evaluation can always keep the optimizer states,
// where `training` is the request of the steps around it: the host's, except
// for states that the host has no room for.
std::vector<Side> SafeSides(const AdmissionRule& rule,
                            const PlanRequest& training);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BOUNDS_ADMISSION_H_
