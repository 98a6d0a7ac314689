// The tunings of plans that are worth a try.
//
// `thorough`: for a step of which many plans may be made.
#ifndef CASTOR_MEMORY_PLAN_POLICY_TUNING_CHOICES_H_
#define CASTOR_MEMORY_PLAN_POLICY_TUNING_CHOICES_H_

#include <vector>

#include "memory/plan/policy/auto_schedule.h"

namespace castor {

// The tunings to try where none is known to be good.
std::vector<Tuning> FirstTunings(bool prefetch, bool thorough);

// The best one's strength with the other rules for who leaves.
std::vector<Tuning> OtherRules(const Tuning& best);

// Those with few fetches on their way and those with fetches when they are
// due, to try beside the best one of all others.
std::vector<Tuning> LaterTunings(const Tuning& best, bool prefetch,
                                 bool thorough);

// Those to try beside ones that were good with other sides.
std::vector<Tuning> OtherTunings(const std::vector<Tuning>& good, bool prefetch,
                                 bool thorough);

// Those with early fetches, or the others. What is of use to plans with the
// ones is not to those with the others, so they do not share rounds.
std::vector<Tuning> OfKind(const std::vector<Tuning>& tunings, bool early);

// Those that differ from it in one thing.
std::vector<Tuning> TuningsAround(const Tuning& tuning, bool prefetch);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_TUNING_CHOICES_H_
