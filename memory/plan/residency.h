// What stays on the device in each gap and what leaves, and the plan it makes.
#ifndef CASTOR_MEMORY_PLAN_RESIDENCY_H_
#define CASTOR_MEMORY_PLAN_RESIDENCY_H_

#include <cstdint>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/plan/use_index.h"

namespace castor {

struct GapChoice {
  bool stays = true;
  // Where it leaves: the moment in whose actions it is fetched again, in
  // [gap.ready, gap.to], and the unrolled moment that it made room for.
  int64_t fetch_at = 0;
  int64_t because = -1;
};

// Indexed like UseIndex::gaps().
using Residency = std::vector<GapChoice>;

// All that can stay does; what is forced out is fetched when it is needed.
Residency StayEverywhere(const UseIndex& index);

// By how many bytes what stays in gaps grows at each moment over the one
// before, a last one behind the step's end included.
std::vector<int64_t> ChangesOfStays(const UseIndex& index,
                                    const Residency& residency);

// What is left of `free_bytes` beside what stays in gaps.
std::vector<int64_t> FreeBesideStays(const UseIndex& index,
                                     const Residency& residency,
                                     std::vector<int64_t> free_bytes);

// Writes the choices out as actions: a chunk leaves right after the use before
// the gap, what is dirty is copied back before. Within one moment: drops of
// clean payloads (their room is free at once), copies back, then fetches by
// need. Gradient blocks are those of the index: each is made before its first
// operator, sent before its reduce, and dropped where it says. So are the sums
// on the device: each is made before its first reduce, sent after its last one
// and dropped where it says. Whose plan it is, the caller fills in.
Plan WritePlan(const PlanRequest& request, const std::vector<Side>& side,
               const UseIndex& index, const Residency& residency);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_RESIDENCY_H_
