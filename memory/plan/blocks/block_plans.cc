#include "memory/plan/blocks/block_plans.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "memory/plan/blocks/offloaded_blocks.h"
#include "memory/plan/check/trace_check.h"
#include "memory/plan/policy/effort.h"

namespace castor {
namespace {

// The fraction of a step by which it must be shorter for all blocks to leave:
// copies that hide behind operators are not free.
constexpr double kCostOfLeaving = 0.001;

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

int64_t BlockPlans::Try(const BlockUses& uses) {
  const auto [at, is_new] = step_ns_.try_emplace(uses, INT64_MAX);
  if (!is_new) return at->second;
  std::vector<Moment> from;
  BlockChoice choice = ChoiceOf(uses, &from);
  // Sizes may come from a corrupt file.
  if (!CheckTrace(choice.trace).ok()) return INT64_MAX;
  const PlanRequest request = request_for_(choice.trace);
  PlanOrRefusal made = MakePlan(policy_, request, mistake_);
  if (Refusal* const why = std::get_if<Refusal>(&made)) {
    if (!refusal_.has_value()) refusal_ = std::move(*why);
    return INT64_MAX;
  }
  choice.plan = std::get<Plan>(std::move(made));
  choice.cost =
      SimulatePlan(choice.plan, request, OverheadsOf(overheads_, from));
  const int64_t step_ns = choice.cost.step_ns;
  const int64_t operators = static_cast<int64_t>(choice.trace.ops.size());
  searched_operators_ +=
      PlansFor(operators, static_cast<double>(step_ns)) * operators;
  const double leave = static_cast<double>(
      std::count(uses.begin(), uses.end(), BlockUse::kOffloaded));
  const double ns =
      static_cast<double>(step_ns) *
      (1 + kCostOfLeaving * leave / static_cast<double>(uses.size()));
  if (!best_.has_value() || ns < best_ns_) {
    best_ = std::move(choice);
    best_uses_ = uses;
    best_ns_ = ns;
  }
  return at->second = step_ns;
}

int64_t BlockPlans::Sketch(const BlockUses& uses) {
  if (policy_->sketch == nullptr) return Try(uses);
  std::vector<Moment> from;
  const BlockChoice choice = ChoiceOf(uses, &from);
  if (!CheckTrace(choice.trace).ok()) return INT64_MAX;
  const PlanRequest request = request_for_(choice.trace);
  const std::optional<Plan> plan = SketchPlan(policy_, request);
  if (!plan.has_value()) return INT64_MAX;
  searched_operators_ +=
      kSketchPlans * static_cast<int64_t>(choice.trace.ops.size());
  return SimulatePlan(*plan, request, OverheadsOf(overheads_, from)).step_ns;
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
  BlockUses uses = best_uses_;
  for (size_t c = 0; c < best_->trace.chunks.size(); ++c) {
    const ChunkInfo& chunk = best_->trace.chunks[c];
    if (!chunk.holds_activations() || Leaves(best_->plan, c)) continue;
    const auto at = std::find(order_.begin(), order_.end(), chunk.block);
    uses[at - order_.begin()] = BlockUse::kKept;
  }
  Try(uses);
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

}  // namespace castor
