// Eviction: chooses the chunk that leaves next.
//
// The moments are walked in order, and at first every chunk stays in every gap
// that it can. Wherever the chunks that stay exceed the room, the chunk whose
// next use (or, with prefetch, whose latest fetch in time for that use) is
// farthest away leaves its gap, until the rest fits: Belady's rule. For chunks
// of one size that are all clean it moves the fewest bytes (L. Belady, IBM
// Systems Journal 5(2), 1966). With different sizes or dirty payloads the best
// choice is NP-hard; there, chunks return into the room that is left over:
// dirty ones first, short gaps before long ones.
#ifndef CASTOR_MEMORY_PLAN_RESIDENCY_EVICTION_H_
#define CASTOR_MEMORY_PLAN_RESIDENCY_EVICTION_H_

#include <cstdint>
#include <vector>

#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {

enum class VictimRule : uint8_t {
  // Ties: clean before dirty, large before small.
  kFarthest,
  // Dirty chunks, which cost two copies, leave only when no clean one can.
  kCleanFirstFarthest,
  // The farthest chunk of about the size of the excess leaves, so that nothing
  // large leaves for a few bytes; if there is none, the farthest larger one,
  // then the farthest smaller one.
  kFittingFarthest,
};
inline constexpr VictimRule kVictimRules[] = {VictimRule::kFarthest,
                                              VictimRule::kCleanFirstFarthest,
                                              VictimRule::kFittingFarthest};

// Makes chunks leave gaps in `residency` until all that stay fit at every
// moment; adds no stays. `free_bytes[t]` >= 0 is the room at moment t beside
// the bytes that must be there. `back_at[g]` is the unrolled moment, in (from,
// to], at which the chunk of gap g would take its room again if it left. O((T +
// gaps) log gaps).
void Evict(const UseIndex& index, const std::vector<int64_t>& free_bytes,
           const std::vector<int64_t>& back_at, VictimRule rule,
           Residency& residency);

// Lets chunks that left a gap stay after all where `room` is large enough, and
// takes that room. O(gaps (log gaps + log T)).
void KeepWhatFits(const UseIndex& index, Room& room, Residency& residency);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_RESIDENCY_EVICTION_H_
