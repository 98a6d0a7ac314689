// Which chunk leaves next.
//
// The moments are walked in order, with every chunk staying in every gap that
// it can. Wherever what stays is more than the room there is, the chunk whose
// next use (or, with prefetch, the moment at which its fetch must begin to be
// in time for it) is farthest away leaves its gap, until the rest fits:
// Belady's rule. For chunks of one size that are all clean it moves the fewest
// bytes (L. Belady, IBM Systems Journal 5(2), 1966). With sizes or dirty
// payloads the best choice is NP-hard; then what can come back into the room
// that is left over does: dirty ones first, short gaps before long ones.
#ifndef CASTOR_MEMORY_PLAN_EVICTION_H_
#define CASTOR_MEMORY_PLAN_EVICTION_H_

#include <cstdint>
#include <vector>

#include "memory/plan/residency.h"
#include "memory/plan/room.h"
#include "memory/plan/use_index.h"

namespace castor {

enum class VictimRule : uint8_t {
  // Ties: clean before dirty, large before small.
  kFarthest,
  // Dirty ones, which cost two copies, only when there is none else.
  kCleanFirstFarthest,
  // It takes the farthest of those about as large as what is too much, so that
  // nothing large leaves for a few bytes; of larger ones when there are none,
  // then of smaller.
  kFittingFarthest,
};
inline constexpr VictimRule kVictimRules[] = {VictimRule::kFarthest,
                                              VictimRule::kCleanFirstFarthest,
                                              VictimRule::kFittingFarthest};

// `free_bytes[t]`: room at moment t beside what must be there, >= 0.
// `back_at[g]`: unrolled moment at which the chunk of gap g would have to take
// its room again if it left, in (from, to]. Only removes stays. Afterwards all
// that stays fits at every moment. O((T + gaps) log gaps).
void Evict(const UseIndex& index, const std::vector<int64_t>& free_bytes,
           const std::vector<int64_t>& back_at, VictimRule rule,
           Residency& residency);

// Lets what left stay after all where `room` has it, and takes that room.
// O(gaps (log gaps + log T)).
void KeepWhatFits(const UseIndex& index, Room& room, Residency& residency);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_EVICTION_H_
