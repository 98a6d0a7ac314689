#include "memory/plan/block_choice.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "memory/plan/trace_check.h"

namespace castor {
namespace {

// Plans of about so many operators in all are made for one choice, but of the
// ends of the order and of its middle in any case.
constexpr int64_t kMostOperators = 1'000'000;

int64_t ComputeNs(const StepTrace& trace) {
  int64_t ns = 0;
  for (const OpRecord& op : trace.ops) {
    if (op.kind == OpKind::kCompute) ns += op.duration_ns;
  }
  return ns;
}

// The plans for the first so many blocks of an order.
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

  StepTrace TraceOf(int64_t count, KeptBlocks* kept,
                    std::vector<Moment>* from) const {
    for (int64_t i = 0; i < count; ++i) {
      const size_t block = static_cast<size_t>(order_[i]);
      if (block >= kept->size()) kept->resize(block + 1, false);
      (*kept)[block] = true;
    }
    return WithKeptBlocks(trace_, *kept, from);
  }

  bool Fits(int64_t count) const {
    KeptBlocks kept;
    const StepTrace trace = TraceOf(count, &kept, nullptr);
    if (!CheckTrace(trace).ok()) return false;
    return !Admit(policy_->admission, request_for_(trace)).refusal.has_value();
  }

  // Plans it, unless that was done. Returns how long the step is.
  int64_t Try(int64_t count) {
    const auto known = step_ns_.find(count);
    if (known != step_ns_.end()) return known->second;
    BlockChoice choice;
    std::vector<Moment> from;
    choice.trace = TraceOf(count, &choice.kept, &from);
    // What blocks take may be a file's invention.
    if (!CheckTrace(choice.trace).ok()) return step_ns_[count] = INT64_MAX;
    const PlanRequest request = request_for_(choice.trace);
    planned_operators_ += static_cast<int64_t>(choice.trace.ops.size());
    PlanOrRefusal made = MakePlan(policy_, request, mistake_);
    if (Refusal* const why = std::get_if<Refusal>(&made)) {
      if (!refusal_.has_value()) refusal_ = std::move(*why);
      return step_ns_[count] = INT64_MAX;
    }
    choice.plan = std::get<Plan>(std::move(made));
    choice.cost =
        SimulatePlan(choice.plan, request, OverheadsOf(overheads_, from));
    const int64_t step_ns = step_ns_[count] = choice.cost.step_ns;
    if (!best_.has_value() || step_ns < best_->cost.step_ns) {
      best_ = std::move(choice);
      best_count_ = count;
    }
    return step_ns;
  }

  // Every step with so many or fewer blocks kept is longer than the best one.
  bool CannotWin(int64_t count) {
    KeptBlocks kept;
    return best_.has_value() &&
           ComputeNs(TraceOf(count, &kept, nullptr)) >= best_->cost.step_ns;
  }

  std::optional<BlockChoice>& best() { return best_; }
  int64_t best_count() const { return best_count_; }
  std::optional<Refusal>& refusal() { return refusal_; }
  int64_t planned_operators() const { return planned_operators_; }

 private:
  const PlacementPolicy* const policy_;
  const StepTrace& trace_;
  const PlanRequestFor& request_for_;
  const Overheads& overheads_;
  const PlanMistake& mistake_;
  const std::vector<int64_t> order_;
  std::map<int64_t, int64_t> step_ns_;
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
  const int64_t all = candidates.size();
  const int64_t most =
      candidates.Fits(all) ? all : Greatest(0, all, [&](int64_t count) {
        return candidates.Fits(count);
      });
  candidates.Try(most);
  // The fewer are kept, the longer compute takes.
  int64_t least = 0;
  if (most > 0 && candidates.CannotWin(0)) {
    least =
        Greatest(0, most,
                 [&](int64_t count) { return candidates.CannotWin(count); }) +
        1;
  }
  // Steps over the counts begin wide and become narrow, around the best one.
  const auto may_try = [&] {
    return candidates.planned_operators() < kMostOperators;
  };
  int64_t stride = std::max<int64_t>(1, (most - least) / 4);
  for (int64_t count = least + stride; count < most && may_try();
       count += stride) {
    candidates.Try(count);
  }
  if (least < most) candidates.Try(least + (most - least) / 2);
  while (stride > 1 && may_try()) {
    stride = (stride + 1) / 2;
    const int64_t around = candidates.best_count();
    for (const int64_t count : {around - stride, around + stride}) {
      if (count >= least && count <= most) candidates.Try(count);
    }
  }
  return *std::move(candidates.best());
}

}  // namespace castor
