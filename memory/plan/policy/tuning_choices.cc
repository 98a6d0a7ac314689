#include "memory/plan/policy/tuning_choices.h"

namespace castor {

std::vector<Tuning> FirstTunings(bool prefetch, bool thorough) {
  std::vector<Tuning> tunings;
  for (const double strength : {0.0, 0.5, 1.0, 1.5, 2.0, 4.0}) {
    if (strength > 0 && !prefetch) break;
    for (const VictimRule rule : kVictimRules) {
      // Otherwise the other rules are tried with the best strength
      // (OtherRules).
      if (!thorough && rule != kVictimRules[0]) continue;
      tunings.push_back({strength, rule});
    }
  }
  return tunings;
}

std::vector<Tuning> LaterTunings(const Tuning& best, bool prefetch,
                                 bool thorough) {
  std::vector<Tuning> tunings;
  if (!prefetch) return tunings;
  for (const int64_t ahead : {8, 2}) {
    tunings.push_back({best.lead_strength, best.rule, /*early=*/true, ahead});
  }
  for (const double strength : {0.5, 1.0, 1.5, 2.0}) {
    if (!thorough && strength != 1.0 && strength != best.lead_strength) {
      continue;
    }
    tunings.push_back({strength, best.rule, /*early=*/false});
  }
  return tunings;
}

std::vector<Tuning> OfKind(const std::vector<Tuning>& tunings, bool early) {
  std::vector<Tuning> of_kind;
  for (const Tuning& tuning : tunings) {
    if (tuning.early == early) of_kind.push_back(tuning);
  }
  return of_kind;
}

std::vector<Tuning> OtherTunings(const std::vector<Tuning>& good, bool prefetch,
                                 bool thorough) {
  std::vector<Tuning> tunings;
  for (const double strength : {0.0, 1.0}) {
    if (strength > 0 && !prefetch) break;
    if (strength == good[0].lead_strength) continue;
    tunings.push_back({strength, good[0].rule});
  }
  // With states on the device there may be no need to be ahead of anything.
  if (thorough && prefetch) {
    tunings.push_back({0.0, good[0].rule, /*early=*/false});
  }
  // For a long step only the first one was tried.
  if (!thorough && good.size() > 1) tunings.push_back(good[1]);
  return tunings;
}

std::vector<Tuning> OtherRules(const Tuning& best) {
  std::vector<Tuning> tunings;
  for (const VictimRule rule : kVictimRules) {
    if (rule == best.rule) continue;
    tunings.push_back({best.lead_strength, rule});
  }
  return tunings;
}

std::vector<Tuning> TuningsAround(const Tuning& tuning, bool prefetch) {
  std::vector<Tuning> around;
  const auto add = [&](auto Tuning::*part, auto value) {
    if (tuning.*part == value) return;
    around.push_back(tuning);
    around.back().*part = value;
  };
  for (const VictimRule rule : kVictimRules) add(&Tuning::rule, rule);
  if (!prefetch) return around;
  for (const double strength : {0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0}) {
    add(&Tuning::lead_strength, strength);
  }
  add(&Tuning::host_first, !tuning.host_first);
  add(&Tuning::early, !tuning.early);
  if (!tuning.early) return around;
  for (const int64_t ahead : {0, 1, 2, 4, 8, 16}) add(&Tuning::ahead, ahead);
  add(&Tuning::off_copies, !tuning.off_copies);
  return around;
}

}  // namespace castor
