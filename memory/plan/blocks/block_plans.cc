#include "memory/plan/blocks/block_plans.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "memory/plan/blocks/offloaded_blocks.h"
#include "memory/plan/check/trace_check.h"
#include "memory/plan/policy/effort.h"

namespace castor {
namespace {

// The fraction of a step by which a plan with blocks that leave must be faster:
// copies that hide behind operators are not free.
constexpr double kLeastGain = 0.001;

// A sketch takes about this many times less time than a plan.
constexpr int64_t kSketchesInPlan = 8;

// Returns true if the chunk leaves the device at any time before backward needs
// it.
bool Leaves(const Plan& plan, int64_t chunk) {
  for (const std::vector<Action>& actions : plan.actions) {
    for (const Action& action : actions) {
      if (action.chunk.value == chunk &&
          RowOf(action.kind).direction() == CopyDirection::kToHost) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

BlockPlans::BlockPlans(const PlacementPolicy* policy, const StepTrace& trace,
                       const PlanRequestFor& request_for,
                       const Overheads& overheads, const PlanMistake& mistake)
    : policy_(policy),
      trace_(trace),
      request_for_(request_for),
      overheads_(overheads),
      mistake_(mistake),
      order_(RankedBlocks(trace)) {
  std::reverse(order_.begin(), order_.end());
  kept_ns_ = WithKeptBlocks(trace, AllBlocks(trace)).compute_ns();
  const StepTrace none = WithKeptBlocks(trace, KeptBlocks());
  std::map<int64_t, int64_t> remake_ns;  // by number
  for (const BlockRecord& block : none.blocks) {
    for (int64_t i = 0; i < block.operators(); ++i) {
      remake_ns[block.block] += none.ops[block.backward.value + i].duration_ns;
    }
  }
  for (const int64_t number : order_) remake_ns_.push_back(remake_ns[number]);
}

bool BlockPlans::AnyCanLeave() const {
  return !policy_->admission.keeps_all_payloads &&
         OffloadsActivations(
             ChoiceOf(BlockUses(order_.size(), BlockUse::kOffloaded), nullptr)
                 .trace);
}

bool BlockPlans::Fits(const BlockUses& uses) const {
  const StepTrace trace = ChoiceOf(uses, nullptr).trace;
  if (!CheckTrace(trace).ok()) return false;
  return !Admit(policy_->admission, request_for_(trace)).refusal.has_value();
}

int64_t BlockPlans::Try(const BlockUses& uses) {
  if (const auto at = step_ns_.find(uses); at != step_ns_.end()) {
    return at->second;
  }
  std::vector<Moment> from;
  BlockChoice choice = ChoiceOf(uses, &from);
  return step_ns_[uses] = Enter(std::move(choice), from, uses);
}

int64_t BlockPlans::Sketch(const BlockUses& uses) {
  if (policy_->sketch == nullptr) {
    sketches_ += !step_ns_.contains(uses);
    return sketch_ns_[uses] = Try(uses);
  }
  const auto [at, is_new] = sketch_ns_.try_emplace(uses, INT64_MAX);
  if (!is_new) return at->second;
  std::vector<Moment> from;
  const BlockChoice choice = ChoiceOf(uses, &from);
  if (!CheckTrace(choice.trace).ok()) return INT64_MAX;
  const PlanRequest request = request_for_(choice.trace);
  const std::optional<Plan> plan = SketchPlan(policy_, request);
  if (!plan.has_value()) return INT64_MAX;
  ++sketches_;
  const int64_t operators = static_cast<int64_t>(choice.trace.ops.size());
  planned_operators_ += operators / kSketchesInPlan;
  searched_operators_ += kSketchPlans * operators;
  return at->second =
             SimulatePlan(*plan, request, OverheadsOf(overheads_, from))
                 .step_ns;
}

bool BlockPlans::CannotWin(const BlockUses& uses, double part) const {
  if (best() == nullptr) return false;
  int64_t ns = kept_ns_;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] == BlockUse::kRemade) ns += remake_ns_[i];
  }
  return static_cast<double>(ns) >=
         (1 - part) * static_cast<double>(best()->cost.step_ns);
}

bool BlockPlans::IsWorthMore() const {
  if (best() == nullptr) return true;
  return static_cast<double>(searched_operators_) <
         kWorthSearches * static_cast<double>(WorthOperators(
                              static_cast<double>(best()->cost.step_ns)));
}

void BlockPlans::KeepThoseThatStay() {
  if (BestKind() == 0) return;
  const BlockChoice& now = *best_[1];
  BlockUses uses = uses_of_best_[1];
  for (size_t c = 0; c < now.trace.chunks.size(); ++c) {
    const ChunkInfo& chunk = now.trace.chunks[c];
    if (!chunk.holds_activations() || Leaves(now.plan, c)) continue;
    const auto at = std::find(order_.begin(), order_.end(), chunk.block);
    uses[at - order_.begin()] = BlockUse::kKept;
  }
  if (uses == uses_of_best_[1]) return;
  std::vector<Moment> from;
  BlockChoice choice = ChoiceOf(uses, &from);
  Enter(std::move(choice), from, uses, /*or_equal=*/true);
}

const BlockChoice* BlockPlans::best() const {
  const std::optional<BlockChoice>& best = best_[BestKind()];
  return best.has_value() ? &*best : nullptr;
}

int BlockPlans::BestKind() const {
  if (!best_[0].has_value() || !best_[1].has_value()) {
    return best_[1].has_value() ? 1 : 0;
  }
  const double stays_ns = static_cast<double>(best_[0]->cost.step_ns);
  const double leaves_ns = static_cast<double>(best_[1]->cost.step_ns);
  return leaves_ns < (1 - kLeastGain) * stays_ns ? 1 : 0;
}

BlockChoice BlockPlans::ChoiceOf(const BlockUses& uses,
                                 std::vector<Moment>* from) const {
  BlockChoice choice;
  std::vector<bool> offloaded;
  const auto set = [](int64_t block, std::vector<bool>* blocks) {
    if (block >= static_cast<int64_t>(blocks->size())) {
      blocks->resize(block + 1, false);
    }
    (*blocks)[block] = true;
  };
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] != BlockUse::kRemade) set(order_[i], &choice.kept);
    if (uses[i] == BlockUse::kOffloaded) set(order_[i], &offloaded);
  }
  choice.trace = WithKeptBlocks(trace_, choice.kept, from);
  if (offloaded.empty()) return choice;
  choice.trace = WithOffloadedBlocks(choice.trace, offloaded);
  choice.offloaded = OffloadedBlocksOf(choice.trace);
  return choice;
}

int64_t BlockPlans::Enter(BlockChoice choice, const std::vector<Moment>& from,
                          const BlockUses& uses, bool or_equal) {
  // Sizes may come from a corrupt file.
  if (!CheckTrace(choice.trace).ok()) return INT64_MAX;
  const PlanRequest request = request_for_(choice.trace);
  const int64_t operators = static_cast<int64_t>(choice.trace.ops.size());
  planned_operators_ += operators;
  PlanOrRefusal made = MakePlan(policy_, request, mistake_);
  if (Refusal* const why = std::get_if<Refusal>(&made)) {
    if (!refusal_.has_value()) refusal_ = std::move(*why);
    return INT64_MAX;
  }
  choice.plan = std::get<Plan>(std::move(made));
  choice.cost =
      SimulatePlan(choice.plan, request, OverheadsOf(overheads_, from));
  const int64_t step_ns = choice.cost.step_ns;
  searched_operators_ +=
      PlansFor(operators, static_cast<double>(step_ns)) * operators;
  const int kind = OffloadsActivations(choice.trace) ? 1 : 0;
  std::optional<BlockChoice>& best = best_[kind];
  if (best.has_value() && (or_equal ? step_ns > best->cost.step_ns
                                    : step_ns >= best->cost.step_ns)) {
    return step_ns;
  }
  best = std::move(choice);
  uses_of_best_[kind] = uses;
  return step_ns;
}

}  // namespace castor
