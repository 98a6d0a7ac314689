#include "memory/plan/blocks/block_choice.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

#include "base/check.h"
#include "memory/plan/blocks/block_plans.h"
#include "memory/plan/blocks/block_search.h"
#include "memory/plan/blocks/block_uses.h"

namespace castor {

std::vector<int64_t> RankedBlocks(const StepTrace& trace) {
  // The order comes from a trace in which all blocks are made again, so that it
  // does not depend on the choice of `trace`.
  const StepTrace none = WithKeptBlocks(trace, KeptBlocks());
  std::vector<int64_t> start_ns = {0};
  for (const OpRecord& op : none.ops) {
    start_ns.push_back(start_ns.back() + op.duration_ns);
  }
  struct Worth {
    double spared_ns = 0;
    double byte_ns = 0;
  };
  std::map<int64_t, Worth> worth;
  for (const BlockRecord& block : none.blocks) {
    const int64_t end = block.forward.value + block.operators();
    const int64_t again = block.backward.value;
    Worth& of = worth[block.block];
    of.spared_ns += static_cast<double>(start_ns[again + block.operators()] -
                                        start_ns[again]);
    // Blocks that keep no more than their input are kept first.
    of.byte_ns += static_cast<double>(std::max<int64_t>(1, block.kept_bytes)) *
                  static_cast<double>(
                      std::max<int64_t>(1, start_ns[again] - start_ns[end]));
  }
  std::vector<int64_t> order;
  for (const auto& [number, of] : worth) order.push_back(number);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double of_a = worth[a].spared_ns * worth[b].byte_ns;
    const double of_b = worth[b].spared_ns * worth[a].byte_ns;
    return of_a != of_b ? of_a > of_b : a > b;
  });
  return order;
}

Overheads OverheadsOf(const Overheads& overheads,
                      const std::vector<Moment>& from) {
  Overheads result = overheads;
  result.moves.clear();
  result.issue_ns.clear();
  if (overheads.issue_ns.empty()) return result;
  // Each operator takes as long to issue as the one that it comes from.
  const int64_t known = static_cast<int64_t>(overheads.issue_ns.size());
  int64_t issue_ns = 0;
  for (const Moment moment : from) {
    const int64_t t = std::min(moment.value, known - 1);
    issue_ns += std::max<int64_t>(
        0, overheads.issue_ns[t] - (t > 0 ? overheads.issue_ns[t - 1] : 0));
    result.issue_ns.push_back(issue_ns);
  }
  return result;
}

BlockChoiceOrRefusal ChooseKeptBlocks(const PlacementPolicy* policy,
                                      const StepTrace& trace,
                                      const PlanRequestFor& request_for,
                                      const Overheads& overheads,
                                      const PlanMistake& mistake) {
  BlockPlans plans(policy, trace, request_for, overheads, mistake);
  plans.Try(BlockUses(plans.blocks(), BlockUse::kRemade));
  if (plans.best() == nullptr) {
    CASTOR_CHECK(plans.refusal().has_value());
    return *plans.refusal();
  }
  SearchBlocks(&plans);
  return plans.TakeBest();
}

int64_t SketchKeptBlocks(const PlacementPolicy* policy, const StepTrace& trace,
                         const PlanRequestFor& request_for) {
  const Overheads none;
  const PlanMistake no_mistake;
  BlockPlans plans(policy, trace, request_for, none, no_mistake);
  const int64_t blocks = plans.blocks();
  std::set<BlockUses> choices = {BlockUses(blocks, BlockUse::kRemade),
                                 BlockUses(blocks, BlockUse::kKept)};
  if (plans.AnyCanLeave()) {
    choices.insert(BlockUses(blocks, BlockUse::kOffloaded));
    choices.insert(
        Arrange(Arrangement::kAlternating, blocks, blocks / 3, blocks / 3));
  }
  int64_t least_ns = INT64_MAX;
  for (const BlockUses& uses : choices) {
    least_ns = std::min(least_ns, plans.Sketch(uses));
  }
  return least_ns;
}

}  // namespace castor
