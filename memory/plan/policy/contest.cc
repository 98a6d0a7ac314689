#include "memory/plan/policy/contest.h"

#include <algorithm>

namespace castor {

void Contest::Enter(Candidate candidate, const Recipe& recipe) {
  ++entered_;
  if (candidate.step_ns > slowest_ns_) return;
  Remember(candidate.score, recipe);
  close_.Enter(std::move(candidate));
}

std::vector<Recipe> Contest::recipes() const {
  std::vector<Recipe> recipes;
  for (const auto& [score, recipe] : finalists_) recipes.push_back(recipe);
  return recipes;
}

void Contest::Remember(double score, const Recipe& recipe) {
  constexpr size_t kFinalists = 6;
  // Recipes that differ in nothing that matters make the same plan.
  if (std::any_of(finalists_.begin(), finalists_.end(),
                  [&](const auto& known) { return known.first == score; })) {
    return;
  }
  const auto worse =
      std::find_if(finalists_.begin(), finalists_.end(),
                   [&](const auto& known) { return score < known.first; });
  finalists_.insert(worse, {score, recipe});
  if (finalists_.size() > kFinalists) finalists_.pop_back();
}

}  // namespace castor
