// Makes plans for choices of blocks, and keeps the best one so far.
//
// A choice gets a full plan, or first a sketch: a plan found with a fraction of
// the effort (SketchPlan in memory/plan/planner/planner.h) compares two choices
// nearly as well.
#ifndef CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_PLANS_H_
#define CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_PLANS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/blocks/block_uses.h"

namespace castor {

class BlockPlans {
 public:
  // The arguments are ChooseKeptBlocks's, and outlive it.
  BlockPlans(const PlacementPolicy* policy, const StepTrace& trace,
             const PlanRequestFor& request_for, const Overheads& overheads,
             const PlanMistake& mistake);

  int64_t blocks() const { return static_cast<int64_t>(order_.size()); }
  // Returns true if the policy moves chunks at all and some block's activations
  // can leave.
  bool AnyCanLeave() const;

  // Plan or sketch the choice and return the length of its step in ns;
  // INT64_MAX if it does not fit. Try plans no choice twice. Only its plans can
  // be the best one.
  int64_t Try(const BlockUses& uses);
  int64_t Sketch(const BlockUses& uses);
  bool IsTried(const BlockUses& uses) const { return step_ns_.contains(uses); }

  // Returns true if the choice's operators alone take so long that its step
  // cannot be shorter than the best one's by the fraction `part`.
  bool CannotWin(const BlockUses& uses, double part = 0) const;

  // Plans the best choice once more, with those of its blocks kept that may
  // leave but never do.
  void KeepThoseThatStay();

  // Null if no choice that fits was tried.
  const BlockChoice* best() const { return best_ ? &*best_ : nullptr; }
  BlockChoice TakeBest() { return *std::move(best_); }
  const BlockUses& best_uses() const { return best_uses_; }
  // The refusal of the first choice that did not fit.
  const std::optional<Refusal>& refusal() const { return refusal_; }
  // Returns true if the step is long enough for more planning to pay
  // (memory/plan/policy/effort.h).
  bool IsWorthMore() const;

 private:
  BlockChoice ChoiceOf(const BlockUses& uses, std::vector<Moment>* from) const;

  const PlacementPolicy* const policy_;
  const StepTrace& trace_;
  const PlanRequestFor& request_for_;
  const Overheads& overheads_;
  const PlanMistake& mistake_;
  // The numbers of the blocks, by ascending worth of keeping them, and the time
  // that making each again takes in a step.
  std::vector<int64_t> order_;
  std::vector<int64_t> remake_ns_;
  int64_t kept_ns_ = 0;  // operators of a step that keeps all blocks
  std::map<BlockUses, int64_t> step_ns_;  // of the planned choices
  std::optional<BlockChoice> best_;
  BlockUses best_uses_;
  double best_ns_ = 0;  // its step, with kCostOfLeaving (block_plans.cc)
  std::optional<Refusal> refusal_;
  // About how many operators were planned, in all plans of all searches.
  int64_t searched_operators_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_PLANS_H_
