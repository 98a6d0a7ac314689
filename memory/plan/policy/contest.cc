#include "memory/plan/policy/contest.h"

#include <algorithm>

namespace castor {

void Contest::Enter(Candidate candidate, const Recipe& recipe) {
  ++entered_;
  spare_bytes_ = std::max(spare_bytes_, candidate.spare_bytes);
  if (candidate.step_ns > slowest_ns_) return;
  Remember(candidate.score, recipe);
  auto& of_kind = tunings_[candidate.tuning.early];
  if (candidate.score < of_kind.first) {
    of_kind = {candidate.score, candidate.tuning};
  }
  close_.Enter(std::move(candidate));
}

std::vector<Recipe> Contest::recipes() const {
  std::vector<Recipe> recipes;
  for (const auto& [score, recipe] : finalists_) recipes.push_back(recipe);
  return recipes;
}

std::vector<Tuning> Contest::tunings() const {
  std::vector<Tuning> tunings = {tunings_[true].second};
  if (tunings_[false].first < kNone) {
    tunings.push_back(tunings_[false].second);
  }
  return tunings;
}

void Contest::Remember(double score, const Recipe& recipe) {
  constexpr size_t kFinalists = 3;
  const auto same =
      std::find_if(finalists_.begin(), finalists_.end(),
                   [&](const auto& known) { return known.second == recipe; });
  if (same != finalists_.end()) {
    if (same->first <= score) return;
    finalists_.erase(same);
  }
  const auto worse =
      std::find_if(finalists_.begin(), finalists_.end(),
                   [&](const auto& known) { return score < known.first; });
  finalists_.insert(worse, {score, recipe});
  if (finalists_.size() > kFinalists) finalists_.pop_back();
}

}  // namespace castor
