// The choice, for each gap, of staying on the device or leaving, and the plan
// that follows from it.
#ifndef CASTOR_MEMORY_PLAN_RESIDENCY_RESIDENCY_H_
#define CASTOR_MEMORY_PLAN_RESIDENCY_RESIDENCY_H_

#include <cstdint>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/plan/residency/use_index.h"

namespace castor {

struct GapChoice {
  bool stays = true;
  // If it leaves: the moment in whose actions it is fetched again, in
  // [gap.ready, gap.to], and the unrolled moment that it made room for.
  int64_t fetch_at = 0;
  int64_t because = -1;
};

// Indexed like UseIndex::gaps().
using Residency = std::vector<GapChoice>;

// Returns the choice in which every chunk stays where it can; chunks that are
// forced out are fetched at their next use.
Residency StayEverywhere(const UseIndex& index);

// Returns the change, at each moment from the one before, of the bytes that
// stay in gaps; the last entry is for the moment after the step's end.
std::vector<int64_t> ChangesOfStays(const UseIndex& index,
                                    const Residency& residency);

// Returns `free_bytes` less the bytes that stay in gaps.
std::vector<int64_t> FreeBesideStays(const UseIndex& index,
                                     const Residency& residency,
                                     std::vector<int64_t> free_bytes);

// Writes the choices out as actions: a chunk leaves right after the use before
// the gap, and is copied back first if it is dirty. Within one moment: drops of
// clean payloads (their room is free at once), copies back, then fetches by the
// moment of their use. Gradient blocks are those of the index: each is made
// before its first operator, sent before its reduce, and dropped where it says.
// Each device sum of the index is made before its first reduce, sent after its
// last one and dropped where it says. The caller fills in Plan::policy.
Plan WritePlan(const PlanRequest& request, const std::vector<Side>& side,
               const UseIndex& index, const Residency& residency);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_RESIDENCY_RESIDENCY_H_
