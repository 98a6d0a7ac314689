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
  bool Fits(const BlockUses& uses) const;

  // Plan or sketch the choice, unless that was done before, and return the
  // length of its step in ns; INT64_MAX if it does not fit. Only Try's plans
  // can be the best one.
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
  const BlockChoice* best() const;
  BlockChoice TakeBest() { return *std::move(best_[BestKind()]); }
  const BlockUses& best_uses() const { return uses_of_best_[BestKind()]; }
  // The refusal of the first choice that did not fit.
  const std::optional<Refusal>& refusal() const { return refusal_; }
  // The operators of all plans, each sketch counted in proportion to its time.
  int64_t planned_operators() const { return planned_operators_; }
  // Returns true if the step is long enough for more planning to pay
  // (memory/plan/policy/effort.h).
  bool IsWorthMore() const;
  // The number of sketched choices that fit.
  int64_t sketches() const { return sketches_; }

 private:
  BlockChoice ChoiceOf(const BlockUses& uses, std::vector<Moment>* from) const;
  int64_t Enter(BlockChoice choice, const std::vector<Moment>& from,
                const BlockUses& uses, bool or_equal = false);
  // 1: the best choice has blocks that may leave.
  int BestKind() const;

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
  std::map<BlockUses, int64_t> step_ns_, sketch_ns_;
  // Indexed by BestKind: 1 if any of the choice's blocks may leave.
  std::optional<BlockChoice> best_[2];
  BlockUses uses_of_best_[2];
  std::optional<Refusal> refusal_;
  int64_t planned_operators_ = 0;
  // About the operators of all plans that searches and sketches made.
  int64_t searched_operators_ = 0;
  int64_t sketches_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_PLANS_H_
