#include "research/protrain_blocks.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "base/check.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/blocks/offloaded_blocks.h"
#include "memory/plan/check/trace_check.h"
#include "research/baseline_policies.h"

namespace castor {
namespace {

// The numbers from 0 to `most`, or nine of them.
std::set<int64_t> Counts(int64_t most) {
  constexpr int64_t kSteps = 8;
  std::set<int64_t> counts;
  const int64_t steps = std::min(most, kSteps);
  for (int64_t i = 0; i <= steps; ++i) {
    counts.insert(steps == 0 ? 0 : most * i / steps);
  }
  return counts;
}

class Choices {
 public:
  Choices(const StepTrace& trace, const PlanRequestFor& request_for)
      : trace_(trace), request_for_(request_for) {
    std::set<int64_t> numbers;
    for (const BlockRecord& block : trace.blocks) numbers.insert(block.block);
    numbers_.assign(numbers.begin(), numbers.end());
  }

  int64_t blocks() const { return static_cast<int64_t>(numbers_.size()); }

  void Enter(const BlockUses& uses) {
    BlockChoice choice;
    const size_t size = numbers_.empty() ? 0 : numbers_.back() + 1;
    choice.kept.assign(size, false);
    choice.offloaded.assign(size, false);
    for (size_t i = 0; i < uses.size(); ++i) {
      choice.kept[numbers_[i]] = uses[i] != BlockUse::kRemade;
      choice.offloaded[numbers_[i]] = uses[i] == BlockUse::kOffloaded;
    }
    choice.trace = WithOffloadedBlocks(WithKeptBlocks(trace_, choice.kept),
                                       choice.offloaded);
    choice.offloaded = OffloadedBlocksOf(choice.trace);
    if (!CheckTrace(choice.trace).ok()) return;
    const PlanRequest request = request_for_(choice.trace);
    PlanOrRefusal made = MakePlan(FindBaseline("protrain"), request);
    if (Refusal* const why = std::get_if<Refusal>(&made)) {
      if (!refusal_.has_value()) refusal_ = std::move(*why);
      return;
    }
    choice.plan = std::get<Plan>(std::move(made));
    choice.cost = SimulatePlan(choice.plan, request);
    if (!best_.has_value() || choice.cost.step_ns < best_->cost.step_ns) {
      best_ = std::move(choice);
    }
  }

  BlockChoiceOrRefusal best() && {
    if (best_.has_value()) return *std::move(best_);
    CASTOR_CHECK(refusal_.has_value());
    return *std::move(refusal_);
  }

 private:
  const StepTrace& trace_;
  const PlanRequestFor& request_for_;
  std::vector<int64_t> numbers_;  // of the blocks, in the order of running
  std::optional<BlockChoice> best_;
  std::optional<Refusal> refusal_;  // the first one's
};

}  // namespace

BlockUses SpreadBlocks(int64_t blocks, int64_t swapped, int64_t recomputed) {
  BlockUses uses(blocks, BlockUse::kKept);
  std::fill_n(uses.begin(), swapped, BlockUse::kOffloaded);
  if (recomputed == 0) return uses;
  const int64_t stride = (blocks - swapped) / recomputed;
  for (int64_t i = 0; i < recomputed; ++i) {
    uses[swapped + i * stride] = BlockUse::kRemade;
  }
  return uses;
}

BlockUses AlternatingBlocks(int64_t blocks, int64_t swapped,
                            int64_t recomputed) {
  BlockUses uses(blocks, BlockUse::kKept);
  const int64_t first = swapped + recomputed;
  for (int64_t i = 0; i < first; ++i) {
    uses[i] = i * swapped % first < swapped ? BlockUse::kOffloaded
                                            : BlockUse::kRemade;
  }
  return uses;
}

BlockChoiceOrRefusal ChooseProTrainBlocks(const StepTrace& trace,
                                          const PlanRequestFor& request_for) {
  Choices choices(trace, request_for);
  const int64_t blocks = choices.blocks();
  choices.Enter(SpreadBlocks(blocks, 0, blocks));
  for (const int64_t recomputed : Counts(blocks)) {
    for (const int64_t swapped : Counts(blocks - recomputed)) {
      choices.Enter(SpreadBlocks(blocks, swapped, recomputed));
      if (swapped == 0 && recomputed == 0) continue;
      choices.Enter(AlternatingBlocks(blocks, swapped, recomputed));
    }
  }
  return std::move(choices).best();
}

}  // namespace castor
