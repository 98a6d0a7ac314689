#include "memory/plan/block_choice.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "memory/plan/offloaded_blocks.h"
#include "memory/plan/trace_check.h"

namespace castor {
namespace {

// Plans of about so many operators in all are made for one choice, but of the
// ends of the order and of its middle in any case.
constexpr int64_t kMostOperators = 1'000'000;

// By how much of a step a plan with blocks that leave must be the faster one:
// copies that hide behind operators are not free.
constexpr double kLeastGain = 0.01;

int64_t ComputeNs(const StepTrace& trace) {
  int64_t ns = 0;
  for (const OpRecord& op : trace.ops) {
    if (op.kind == OpKind::kCompute) ns += op.duration_ns;
  }
  return ns;
}

// Whether the chunk ever leaves the device before backward wants it.
bool Leaves(const Plan& plan, int64_t chunk) {
  for (const std::vector<Action>& actions : plan.actions) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kCopyBack && action.chunk.value == chunk) {
        return true;
      }
    }
  }
  return false;
}

// The plans for the first so many blocks of an order, that stay on the device
// or may leave it.
class Candidates {
 public:
  Candidates(const PlacementPolicy* policy, const StepTrace& trace,
             const PlanRequestFor& request_for, const Overheads& overheads,
             const PlanMistake& mistake, std::vector<int64_t> order)
      : policy_(policy),
        trace_(trace),
        request_for_(request_for),
        overheads_(overheads),
        mistake_(mistake),
        order_(std::move(order)) {}

  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  // From now on those of the order may leave. Returns whether any can, under a
  // policy that moves anything.
  bool MayLeave() {
    may_leave_ = true;
    best_count_ = 0;
    return !policy_->admission.keeps_all_payloads &&
           OffloadsActivations(ChoiceOf(size(), nullptr).trace);
  }

  bool Fits(int64_t count) const {
    const StepTrace trace = ChoiceOf(count, nullptr).trace;
    if (!CheckTrace(trace).ok()) return false;
    return !Admit(policy_->admission, request_for_(trace)).refusal.has_value();
  }

  // Plans it, unless that was done. Returns how long the step is.
  int64_t Try(int64_t count) {
    std::map<int64_t, int64_t>& known = step_ns_[may_leave_];
    if (const auto at = known.find(count); at != known.end()) return at->second;
    std::vector<Moment> from;
    BlockChoice choice = ChoiceOf(count, &from);
    const int64_t step_ns = known[count] = Enter(std::move(choice), from);
    if (step_ns < step_ns_of_best_count_[may_leave_]) {
      step_ns_of_best_count_[may_leave_] = step_ns;
      best_count_ = count;
    }
    return step_ns;
  }

  // In the best choice, blocks that may leave and never do are kept.
  void KeepThoseThatStay() {
    if (!best_.has_value() || !OffloadsActivations(best_->trace)) return;
    std::vector<Moment> from;
    BlockChoice choice;
    choice.kept = best_->kept;
    choice.offloaded = best_->offloaded;
    for (size_t c = 0; c < best_->trace.chunks.size(); ++c) {
      const ChunkInfo& chunk = best_->trace.chunks[c];
      if (!chunk.holds_activations() || Leaves(best_->plan, c)) continue;
      choice.offloaded[chunk.block] = false;
    }
    if (choice.offloaded == best_->offloaded) return;
    choice.trace = WithOffloadedBlocks(
        WithKeptBlocks(trace_, choice.kept, &from), choice.offloaded);
    stays_ = true;
    Enter(std::move(choice), from);
  }

  // Every step with so many or fewer blocks kept is longer than the best one.
  bool CannotWin(int64_t count) {
    return best_.has_value() &&
           ComputeNs(ChoiceOf(count, nullptr).trace) >= best_->cost.step_ns;
  }

  std::optional<BlockChoice>& best() { return best_; }
  // The best of the counts that were tried with what blocks may do at present.
  int64_t best_count() const { return best_count_; }
  std::optional<Refusal>& refusal() { return refusal_; }
  int64_t planned_operators() const { return planned_operators_; }

 private:
  BlockChoice ChoiceOf(int64_t count, std::vector<Moment>* from) const {
    BlockChoice choice;
    for (int64_t i = 0; i < count; ++i) {
      const size_t block = static_cast<size_t>(order_[i]);
      if (block >= choice.kept.size()) choice.kept.resize(block + 1, false);
      choice.kept[block] = true;
    }
    choice.trace = WithKeptBlocks(trace_, choice.kept, from);
    if (may_leave_) {
      choice.trace = WithOffloadedBlocks(choice.trace, choice.kept);
      choice.offloaded = OffloadedBlocksOf(choice.trace);
    }
    return choice;
  }

  // Makes its plan. Returns how long the step is.
  int64_t Enter(BlockChoice choice, const std::vector<Moment>& from) {
    // What blocks take may be a file's invention.
    if (!CheckTrace(choice.trace).ok()) return INT64_MAX;
    const PlanRequest request = request_for_(choice.trace);
    planned_operators_ += static_cast<int64_t>(choice.trace.ops.size());
    PlanOrRefusal made = MakePlan(policy_, request, mistake_);
    if (Refusal* const why = std::get_if<Refusal>(&made)) {
      if (!refusal_.has_value()) refusal_ = std::move(*why);
      return INT64_MAX;
    }
    choice.plan = std::get<Plan>(std::move(made));
    choice.cost =
        SimulatePlan(choice.plan, request, OverheadsOf(overheads_, from));
    const int64_t step_ns = choice.cost.step_ns;
    if (!best_.has_value() || IsBetter(choice)) best_ = std::move(choice);
    return step_ns;
  }

  bool IsBetter(const BlockChoice& choice) const {
    const double now_ns = static_cast<double>(best_->cost.step_ns);
    const double step_ns = static_cast<double>(choice.cost.step_ns);
    if (stays_) return step_ns <= now_ns;
    const bool first_to_leave =
        OffloadsActivations(choice.trace) && !OffloadsActivations(best_->trace);
    return first_to_leave ? step_ns < (1 - kLeastGain) * now_ns
                          : step_ns < now_ns;
  }

  const PlacementPolicy* const policy_;
  const StepTrace& trace_;
  const PlanRequestFor& request_for_;
  const Overheads& overheads_;
  const PlanMistake& mistake_;
  const std::vector<int64_t> order_;
  bool may_leave_ = false;
  bool stays_ = false;  // a choice that is as fast as the best one is better
  // By whether blocks may leave.
  std::map<int64_t, int64_t> step_ns_[2];
  int64_t step_ns_of_best_count_[2] = {INT64_MAX, INT64_MAX};
  std::optional<BlockChoice> best_;
  int64_t best_count_ = 0;
  std::optional<Refusal> refusal_;
  int64_t planned_operators_ = 0;
};

// The greatest count in [least, most] for which `holds`, which holds for
// `least` and for none beyond one for which it does not.
template <class Holds>
int64_t Greatest(int64_t least, int64_t most, const Holds& holds) {
  while (least < most) {
    const int64_t middle = least + (most - least + 1) / 2;
    if (holds(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

// Looks for the best count: of all that fit if they are few, else until plans
// of so many operators were made.
void TryCounts(Candidates* candidates, int64_t most_operators) {
  const int64_t all = candidates->size();
  const int64_t most =
      candidates->Fits(all) ? all : Greatest(0, all, [&](int64_t count) {
        return candidates->Fits(count);
      });
  candidates->Try(most);
  // The fewer are kept, the longer compute takes.
  int64_t least = 0;
  if (most > 0 && candidates->CannotWin(0)) {
    least =
        Greatest(0, most,
                 [&](int64_t count) { return candidates->CannotWin(count); }) +
        1;
  }
  // Steps over the counts begin wide and become narrow, around the best one.
  const auto may_try = [&] {
    return candidates->planned_operators() < most_operators;
  };
  int64_t stride = std::max<int64_t>(1, (most - least) / 4);
  for (int64_t count = least + stride; count < most && may_try();
       count += stride) {
    candidates->Try(count);
  }
  if (least < most) candidates->Try(least + (most - least) / 2);
  while (stride > 1 && may_try()) {
    stride = (stride + 1) / 2;
    const int64_t around = candidates->best_count();
    for (const int64_t count : {around - stride, around + stride}) {
      if (count >= least && count <= most) candidates->Try(count);
    }
  }
}

}  // namespace

std::vector<int64_t> RankedBlocks(const StepTrace& trace) {
  // All blocks are made again in the trace that the order comes from, so that
  // it does not depend on the choice at hand.
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
    // What keeps nothing more than its input is kept first.
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
  Candidates candidates(policy, trace, request_for, overheads, mistake,
                        RankedBlocks(trace));
  candidates.Try(0);
  if (!candidates.best().has_value()) {
    CASTOR_CHECK(candidates.refusal().has_value());
    return *std::move(candidates.refusal());
  }
  TryCounts(&candidates, kMostOperators);
  // Where nothing moves nothing is to begin to.
  const BlockChoice& stays = *candidates.best();
  const bool moves = stays.kept != AllBlocks(trace) ||
                     stays.cost.h2d_bytes + stays.cost.d2h_bytes > 0;
  if (moves && !candidates.CannotWin(candidates.size()) &&
      candidates.MayLeave()) {
    TryCounts(&candidates, candidates.planned_operators() + kMostOperators / 2);
    candidates.KeepThoseThatStay();
  }
  return *std::move(candidates.best());
}

}  // namespace castor
