#include "memory/plan/residency/residency.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/types/span.h"

namespace castor {
namespace {

// The actions on one payload at one place between operators.
struct Event {
  enum Order {
    kDropClean,
    kCopyBackAndDrop,
    kSendGradients,
    kSendSum,
    kDropGradients,
    kDropSum,
    kMakeGradients,
    kMakeSum,
    kFetch
  };
  // By order: the action, before which kCopyBackAndDrop has another one.
  static constexpr ActionKind kKinds[] = {
      ActionKind::kDrop,          ActionKind::kDrop,
      ActionKind::kSendGradients, ActionKind::kSendSum,
      ActionKind::kDropGradients, ActionKind::kDropSum,
      ActionKind::kMakeGradients, ActionKind::kMakeSum,
      ActionKind::kFetch};
  int64_t place = 0;  // before which operator
  Order order = kDropClean;
  int64_t need = 0;  // fetches: moments until the use
  int64_t chunk = 0;
  int64_t because = -1;
};

class Writer {
 public:
  Writer(const PlanRequest& request, const UseIndex& index)
      : moments_(index.moments()),
        // A fetch for the next step's first operator is issued after this
        // step's last operator, unless it has no lead.
        first_in_own_step_(!request.prefetch) {}

  void Leave(int64_t after, int64_t chunk, bool dirty, int64_t because) {
    events_.push_back({after + 1,
                       dirty ? Event::kCopyBackAndDrop : Event::kDropClean, 0,
                       chunk, because});
  }

  void UseGradients(const GradientBlock& block) {
    events_.push_back(
        {block.from, Event::kMakeGradients, 0, block.chunk, block.from});
    if (block.sent) {
      events_.push_back(
          {block.reduce, Event::kSendGradients, 0, block.chunk, block.reduce});
    }
    events_.push_back({block.drop, Event::kDropGradients, 0, block.chunk, -1});
  }

  void UseSum(const DeviceSum& sum) {
    events_.push_back({sum.from, Event::kMakeSum, 0, sum.chunk, sum.from});
    events_.push_back(
        {sum.reduce + 1, Event::kSendSum, 0, sum.chunk, sum.reduce});
    events_.push_back({sum.drop, Event::kDropSum, 0, sum.chunk, -1});
  }

  // Returns whether it is resident between the steps.
  bool Fetch(const Gap& gap, int64_t at) {
    const bool ahead = at < moments_ || (at == moments_ && !first_in_own_step_);
    const int64_t place = ahead ? at : at - moments_;
    events_.push_back({place, Event::kFetch, gap.to - at, gap.chunk, gap.to});
    return ahead && gap.to >= moments_;
  }

  std::vector<std::vector<Action>> Actions() && {
    // Indexed by place; the few at each place are in their order.
    std::vector<int64_t> first(moments_ + 2, 0);
    for (const Event& event : events_) ++first[event.place + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<Event> sorted(events_.size());
    {
      std::vector<int64_t> next = first;
      for (const Event& event : events_) sorted[next[event.place]++] = event;
    }
    std::vector<std::vector<Action>> actions(moments_ + 1);
    for (int64_t t = 0; t <= moments_; ++t) {
      if (first[t] == first[t + 1]) continue;
      const auto begin = sorted.begin() + first[t];
      const auto end = sorted.begin() + first[t + 1];
      std::sort(begin, end, [](const Event& a, const Event& b) {
        return std::tie(a.order, a.need, a.chunk) <
               std::tie(b.order, b.need, b.chunk);
      });
      actions[t].reserve(2 * (end - begin));  // a copy back has its drop
      for (const Event& event : absl::MakeConstSpan(&*begin, end - begin)) {
        const ChunkId chunk(event.chunk);
        const Moment because =
            event.because < 0 ? Moment() : Moment(event.because % moments_);
        if (event.order == Event::kCopyBackAndDrop) {
          actions[t].push_back({ActionKind::kCopyBack, chunk, because});
        }
        actions[t].push_back({Event::kKinds[event.order], chunk, because});
      }
    }
    return actions;
  }

 private:
  int64_t moments_;
  bool first_in_own_step_;
  std::vector<Event> events_;
};

}  // namespace

Residency StayEverywhere(const UseIndex& index) {
  Residency residency(index.gaps().size());
  for (size_t g = 0; g < residency.size(); ++g) {
    const Gap& gap = index.gaps()[g];
    residency[g] = {!gap.forced(), gap.to, gap.forced_by};
  }
  return residency;
}

std::vector<int64_t> ChangesOfStays(const UseIndex& index,
                                    const Residency& residency) {
  const int64_t moments = index.moments();
  std::vector<int64_t> changes(moments + 1, 0);
  for (size_t g = 0; g < residency.size(); ++g) {
    if (!residency[g].stays) continue;
    const Gap& gap = index.gaps()[g];
    if (gap.from + 1 < moments) {
      changes[gap.from + 1] += gap.bytes;
      changes[std::min(gap.to, moments)] -= gap.bytes;
    }
    // Stays that reach over from the step before.
    if (gap.to > moments) {
      changes[0] += gap.bytes;
      changes[gap.to - moments] -= gap.bytes;
    }
  }
  return changes;
}

std::vector<int64_t> FreeBesideStays(const UseIndex& index,
                                     const Residency& residency,
                                     std::vector<int64_t> free_bytes) {
  const std::vector<int64_t> changes = ChangesOfStays(index, residency);
  int64_t staying = 0;
  for (size_t t = 0; t < free_bytes.size(); ++t) {
    staying += changes[t];
    free_bytes[t] -= staying;
  }
  return free_bytes;
}

Plan WritePlan(const PlanRequest& request, const std::vector<Side>& side,
               const UseIndex& index, const Residency& residency) {
  const StepTrace& trace = *request.trace;
  Plan plan;
  plan.signature = trace.signature;
  plan.side = side;
  Writer writer(request, index);
  for (int64_t c = 0; c < static_cast<int64_t>(trace.chunks.size()); ++c) {
    if (IsPinned(trace, side, c)) {
      plan.initial.push_back({ChunkId(c), true});
      continue;
    }
    const absl::Span<const Use> uses = index.uses(c);
    if (uses.empty()) continue;
    // The first of two passes finds the state at the step's end, which does not
    // depend on the state at its start.
    bool dirty = false;
    bool resident_between_steps = true;
    for (int lap = 0; lap < 2; ++lap) {
      const bool dirty_at_start = dirty;
      for (const Use& use : uses) {
        dirty = (dirty || use.writes) && !use.spends;
        if (use.gap < 0 || residency[use.gap].stays) continue;
        const Gap& gap = index.gaps()[use.gap];
        const GapChoice& choice = residency[use.gap];
        if (lap == 1) {
          writer.Leave(gap.from, c, dirty, choice.because);
          const bool ahead = writer.Fetch(gap, choice.fetch_at);
          if (gap.to >= index.moments()) resident_between_steps = ahead;
        }
        dirty = false;
      }
      if (lap == 1 && resident_between_steps) {
        plan.initial.push_back({ChunkId(c), dirty_at_start});
      }
    }
  }
  for (const GradientBlock& block : index.gradient_blocks()) {
    writer.UseGradients(block);
  }
  for (const DeviceSum& sum : index.device_sums()) writer.UseSum(sum);
  plan.actions = std::move(writer).Actions();
  return plan;
}

}  // namespace castor
