// Proposes tunings to try.
//
// `thorough` is true for a step of which many plans may be made.
#ifndef CASTOR_MEMORY_PLAN_POLICY_TUNING_CHOICES_H_
#define CASTOR_MEMORY_PLAN_POLICY_TUNING_CHOICES_H_

#include <vector>

#include "memory/plan/policy/auto_schedule.h"

namespace castor {

// Returns the tunings to try where none is known to be good.
std::vector<Tuning> FirstTunings(bool prefetch, bool thorough);

// Returns tunings with the best one's strength and the other victim rules.
std::vector<Tuning> OtherRules(const Tuning& best);

// Returns tunings with few early fetches at once, and with fetches at their
// latest start, to try after the best one of all others is known.
std::vector<Tuning> LaterTunings(const Tuning& best, bool prefetch,
                                 bool thorough);

// Returns tunings to try in addition to those that were good with other sides.
std::vector<Tuning> OtherTunings(const std::vector<Tuning>& good, bool prefetch,
                                 bool thorough);

// Returns those with early fetches, or the others. Gradient blocks of use to
// the one kind need not be of use to the other, so the kinds do not share
// rounds.
std::vector<Tuning> OfKind(const std::vector<Tuning>& tunings, bool early);

// Returns the tunings that differ from `tuning` in one field.
std::vector<Tuning> TuningsAround(const Tuning& tuning, bool prefetch);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_TUNING_CHOICES_H_
