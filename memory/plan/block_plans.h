// The plans of choices of blocks, and the best one so far.
//
// A choice is planned in earnest, or sketched first: a plan found with a
// fraction of the effort (SketchPlan in memory/plan/planner.h) says nearly as
// well which of two choices is the better one.
#ifndef CASTOR_MEMORY_PLAN_BLOCK_PLANS_H_
#define CASTOR_MEMORY_PLAN_BLOCK_PLANS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/block_choice.h"
#include "memory/plan/block_uses.h"

namespace castor {

class BlockPlans {
 public:
  // The arguments are ChooseKeptBlocks's, and outlive it.
  BlockPlans(const PlacementPolicy* policy, const StepTrace& trace,
             const PlanRequestFor& request_for, const Overheads& overheads,
             const PlanMistake& mistake);

  int64_t blocks() const { return static_cast<int64_t>(order_.size()); }
  // Whether activations of any block can leave, under a policy that moves
  // anything.
  bool AnyCanLeave() const;
  bool Fits(const BlockUses& uses) const;

  // Plan the choice, unless that was done, and return how long its step is;
  // INT64_MAX: it does not fit. What was planned in earnest may be the best.
  int64_t Try(const BlockUses& uses);
  int64_t Sketch(const BlockUses& uses);
  bool IsTried(const BlockUses& uses) const { return step_ns_.contains(uses); }

  // Whether by its operators alone the step takes so long that it saves less
  // than that part of the best one's.
  bool CannotWin(const BlockUses& uses, double part = 0) const;

  // Plans the best choice once more, those of its blocks kept that may leave
  // and never do.
  void KeepThoseThatStay();

  // Absent: none was tried that fits.
  const BlockChoice* best() const;
  BlockChoice TakeBest() { return *std::move(best_[BestKind()]); }
  const BlockUses& best_uses() const { return uses_of_best_[BestKind()]; }
  // Says why the first choice that did not fit did not.
  const std::optional<Refusal>& refusal() const { return refusal_; }
  // Counts the operators of all plans; those of sketches count as much less as
  // sketches take less time.
  int64_t planned_operators() const { return planned_operators_; }
  // Whether the step is worth that more is planned
  // (memory/plan/policy/effort.h).
  bool IsWorthMore() const;
  // Counts the sketches of choices that fit.
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
  // The numbers of the blocks, those that are worth the least to keep first,
  // and how long each takes to be made again in a step.
  std::vector<int64_t> order_;
  std::vector<int64_t> remake_ns_;
  int64_t kept_ns_ = 0;  // the operators of a step in which all are kept
  std::map<BlockUses, int64_t> step_ns_, sketch_ns_;
  // By whether any of its blocks may leave.
  std::optional<BlockChoice> best_[2];
  BlockUses uses_of_best_[2];
  std::optional<Refusal> refusal_;
  int64_t planned_operators_ = 0;
  // The operators of all plans that searches and sketches made, more or less.
  int64_t searched_operators_ = 0;
  int64_t sketches_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCK_PLANS_H_
