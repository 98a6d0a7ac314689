// The search for the best plan of a step: makes and simulates many plans.
//
// A plan is made by a recipe: the chunks whose optimizer states are on the
// device, those with a device sum, whether there are gradient blocks, and a
// tuning. The search first enters recipes of a few kinds: tunings; shares of
// the room for optimizer states; then gradient blocks and sums with each of
// these sides, from the best one on. Then it climbs: it enters random
// neighbours of the best few recipes, from the same seed in every search, until
// it has made its number of plans or neighbours no longer gain anything.
//
// Where the micro batches of a long step are alike, the search runs on a short
// step (short_step.h), and the whole step is planned with its best few recipes.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_
#define CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/contest.h"

namespace castor {

class Search {
 public:
  // Both arguments must outlive the search.
  Search(const PlanTask& task, const Admission& admission);

  // Returns the number of plans that the step is worth (effort.h).
  int64_t PlansWorth();
  // Searches for the best plan with about this number of plans.
  void Run(int64_t plans);
  // Enters plans by the recipes that were best for a short step.
  void Run(const std::vector<Recipe>& recipes);

  // The plan to take: the best one, or one about as fast that moves fewer
  // bytes.
  Candidate& taken() { return contest_.taken(); }
  std::vector<Recipe> recipes() const { return contest_.recipes(); }
  // The number of plans that were made.
  int64_t plans() const { return contest_.entered(); }

 private:
  // The possible sums with some sides, each dropped when its copy should be
  // over, and the bytes that they may take: those free at all moments.
  struct Sums {
    std::vector<PossibleSum> possible;
    double most_bytes = 0;
  };
  // Sides that fit, with the score of their plan.
  using ScoredSides = std::pair<double, std::vector<Side>>;

  // Enters plans of the first sides, without and with gradient blocks. Returns
  // the best score; lower is better.
  double EnterTunings();
  // Enters sides with states in shares of the room that no operator needs:
  // eighths of it, then shares closer and closer to the best one. States on the
  // device save copies and the host's work, but take room all step long in
  // which chunks could stay.
  void EnterShares(std::vector<ScoredSides>* tried);
  // Enters gradient blocks with these sides, without sums and with sums in
  // halves of the room for them. States and sums compete for the same room and
  // time, so sums are tried with every number of states.
  void EnterBlocksAndSums(const std::vector<Side>& side);
  // Enters the plan of a recipe, with those of its sums and gradient blocks
  // that fit, then plans with those gradient blocks alone that were of use.
  // Returns the best score.
  double Enter(const Recipe& recipe);

  // Enters neighbours of the best few recipes.
  void Climb();
  // Returns a recipe that differs in its tuning, its gradient blocks, or the
  // states or sums of a chunk or two, or in its share of states. Sums that are
  // no shorter than the gradients stay as they are.
  Recipe Neighbour(Recipe recipe);
  void ShareStates(Recipe* recipe);
  void Retune(Recipe* recipe);
  void TurnBlocks(Recipe* recipe);
  void TurnSum(Recipe* recipe);
  void TurnStates(int64_t chunk, Recipe* recipe);
  // Moves states of random chunks to the host until the rest fits on the
  // device.
  void MakeRoom(std::vector<Side>* side);

  Sums FindSums(const AutoSchedule& without,
                const std::vector<GradientBlock>& blocks,
                const std::vector<Side>& side) const;
  // Returns true if the bytes that every plan with these sides needs fit.
  bool Fits(const std::vector<Side>& side) const;
  bool Ended() const { return plans() >= most_plans_; }
  // Returns a random number below `size`.
  int64_t Any(int64_t size);

  const PlanTask& task_;
  const PlanRequest& request_;
  const StepTrace& trace_;
  const Admission& admission_;
  const std::vector<Side> first_side_;
  // The chunks whose device sum is shorter than the gradients that it keeps off
  // the bus.
  const std::vector<int64_t> shorter_sums_;
  // True if there may be gradient blocks.
  const bool has_blocks_;
  // True if states may change sides, and the most bytes that they may take.
  const bool sides_free_;
  const double most_states_bytes_;
  int64_t most_plans_ = 0;
  // The best tuning with the first sides and without gradient blocks.
  Tuning plain_tuning_;
  Contest contest_;
  std::mt19937_64 random_;  // the same in every search
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_
