// A planner's refusal, as a user is told of it.
#ifndef CASTOR_RUN_REFUSAL_STATUS_H_
#define CASTOR_RUN_REFUSAL_STATUS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "memory/plan/plan.h"
#include "run/options.h"

namespace castor {

// ResourceExhausted: what is too large, where, and what would help: `remedies`
// are settings that would let the run fit, as "memory.placement_policy
// \"auto\"".
absl::Status RefusalStatus(const Refusal& refusal, const MemoryOptions& memory,
                           const std::vector<std::string>& remedies);

}  // namespace castor

#endif  // CASTOR_RUN_REFUSAL_STATUS_H_
