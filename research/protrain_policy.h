// ProTrain's chunks as a baseline: research/baseline_policies.h lists its
// sources.
//
// The first chunks of the order persist: they stay, with their states. All
// others pass through buffers, which take the room that there is:
//
//   cached      chunks that were used stay until they are wanted again, so that
//               backward finds those that forward left: where the buffers are
//               full, the one leaves first whose next use is the farthest;
//   on its way  some buffers are kept from that for chunks that come; they come
//               as early as there is a buffer.
#ifndef CASTOR_RESEARCH_PROTRAIN_POLICY_H_
#define CASTOR_RESEARCH_PROTRAIN_POLICY_H_

#include <cstdint>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"

namespace castor {

struct ProTrainKnobs {
  // The bytes of buffers that are kept from the cache, for chunks on their way.
  int64_t on_their_way_bytes = 0;
  // If true, gradients of micro batches that are not the last have blocks
  // beside their payloads where there is room, so that these may be cached.
  bool gradient_blocks = false;
};

// The plan in which the chunks of the device's side persist. The sides must
// have been admitted.
Plan PlanProTrainWith(const PlanRequest& request, const std::vector<Side>& side,
                      const ProTrainKnobs& knobs);

// Returns the fastest plan over the knobs and over how many chunks persist.
Plan PlanProTrain(const PlanRequest& request, const Admission& admission);

}  // namespace castor

#endif  // CASTOR_RESEARCH_PROTRAIN_POLICY_H_
