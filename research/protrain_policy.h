// ProTrain's chunks as a baseline: research/baseline_policies.h says what it
// takes from where.
//
// The first chunks of the order persist: they stay, with their states. All
// others pass through buffers, which take what room there is:
//
//   cached      what was used last stays until it is wanted again, so that
//               backward finds what forward left there: where the buffers are
//               full, that leaves first whose next use is the farthest;
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
  // For so many bytes of chunks on their way nothing is cached.
  int64_t on_their_way_bytes = 0;
  // Whether gradients of micro batches that are not the last have blocks beside
  // their payloads where there is room, so that these may be cached.
  bool gradient_blocks = false;
};

// The plan in which the chunks of the device's side persist. The sides must
// have been admitted.
Plan PlanProTrainWith(const PlanRequest& request, const std::vector<Side>& side,
                      const ProTrainKnobs& knobs);

// The fastest over the knobs and over how many chunks persist.
Plan PlanProTrain(const PlanRequest& request, const Admission& admission);

}  // namespace castor

#endif  // CASTOR_RESEARCH_PROTRAIN_POLICY_H_
