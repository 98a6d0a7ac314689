#include <algorithm>
#include <limits>

#include "benchmarks/linear_units.h"
#include "research/windows.h"

namespace castor {

// The times at which a plan's copies cross the bus: fetches as late as they
// could, copies back as early, if operators start when they do. So none takes
// room for longer than in the plan.
class TightBound::Windows::Timeline {
 public:
  Timeline(const Windows& windows, const Plan& plan, const PlanCost& cost)
      : all_(windows),
        trace_(windows.trace_),
        plan_(plan),
        cost_(cost),
        moments_(static_cast<int64_t>(trace_.ops.size())),
        fetches_(plan.side.size()),
        copies_back_(plan.side.size()) {
    int64_t order = 0;
    for (int64_t t = 0; t <= moments_; ++t) {
      for (const Action& action : plan.actions[t]) {
        const int64_t c = action.chunk.value;
        ++order;
        if (action.kind == ActionKind::kFetch) {
          fetches_[c].push_back({t, order});
        } else if (action.kind == ActionKind::kCopyBack ||
                   action.kind == ActionKind::kSendGradients) {
          copies_back_[c].push_back({t, order});
        }
      }
    }
  }

  // Sets the variables of windows and of their parts.
  void SetIn(std::vector<double>* point) const {
    for (int64_t w = 0; w < all_.windows(); ++w) {
      (*point)[all_.windows_[w].variable] = EndMs(w) - EndMs(w - 1);
    }
    for (const Copying& copying : Fetches()) Share(copying, point);
    for (const Copying& copying : CopiesBack()) Share(copying, point);
  }

 private:
  struct Issued {
    int64_t moment = 0;  // in whose actions
    int64_t order = 0;   // among all actions
  };
  struct Copying {
    const Copy* copy = nullptr;
    int64_t order = 0;
    int64_t step = 0;     // in which it is issued; its windows count from 0
    double limit_ms = 0;  // from that step's beginning, and so is begin_ms
    double begin_ms = 0;
  };

  double StepMs(int64_t steps) const { return Ms(steps * cost_.step_ns); }
  double StartMs(int64_t moment) const {
    return static_cast<double>(cost_.op_start_ns[moment % moments_]) * 1e-6 +
           StepMs(moment / moments_);
  }
  double OperatorEndMs(int64_t moment) const {
    const OpRecord& op = trace_.ops[moment % moments_];
    return StartMs(moment) + static_cast<double>(op.duration_ns) * 1e-6;
  }
  // Returns when a window ends; -1 is the last one of the step before.
  double EndMs(int64_t window) const {
    if (window < 0) return EndMs(window + all_.windows()) - StepMs(1);
    return OperatorEndMs(all_.EndOf(window));
  }

  std::vector<Copying> Fetches() const {
    std::vector<Copying> all;
    for (const Copy& fetch : all_.fetches_) {
      if (plan_.side[fetch.chunk] != fetch.side) continue;
      // The last one in the gap, of this step or of the next.
      int64_t last = -1;
      Copying copying = {&fetch};
      for (const Issued& issued : fetches_[fetch.chunk]) {
        for (const int64_t step : {0, 1}) {
          const int64_t t = issued.moment + step * moments_;
          if (t <= fetch.from || t > fetch.to || t < last) continue;
          last = t;
          copying.order = issued.order;
          copying.step = step;
        }
      }
      if (last < 0) continue;
      copying.limit_ms = StartMs(fetch.to) - StepMs(copying.step);
      all.push_back(copying);
    }
    SortByOrder(&all);
    double next_ms = std::numeric_limits<double>::infinity();
    for (int step = 0; step < kSteps; ++step) {
      for (auto copying = all.rbegin(); copying != all.rend(); ++copying) {
        next_ms = std::min(copying->limit_ms, next_ms) - copying->copy->ms;
        copying->begin_ms = next_ms;
      }
      next_ms += StepMs(1);
    }
    return all;
  }

  std::vector<Copying> CopiesBack() const {
    std::vector<Copying> all;
    for (const Copy& copy : all_.gradients_) {
      if (plan_.side[copy.chunk] != Side::kHost) continue;
      for (const Issued& issued : copies_back_[copy.chunk]) {
        if (issued.moment <= copy.from || issued.moment > copy.to) {
          continue;
        }
        all.push_back({&copy, issued.order, 0, OperatorEndMs(copy.from)});
        break;
      }
    }
    SortByOrder(&all);
    double free_ms = -std::numeric_limits<double>::infinity();
    for (int step = 0; step < kSteps; ++step) {
      for (Copying& copying : all) {
        copying.begin_ms = std::max(copying.limit_ms, free_ms);
        free_ms = copying.begin_ms + copying.copy->ms;
      }
      free_ms -= StepMs(1);
    }
    return all;
  }

  static void SortByOrder(std::vector<Copying>* all) {
    std::sort(all->begin(), all->end(), [](const Copying& a, const Copying& b) {
      return a.order < b.order;
    });
  }

  // A payload that is fetched again, into another place, before its use before
  // the gap is over might as well have stayed.
  void Share(const Copying& copying, std::vector<double>* point) const {
    const Copy& copy = *copying.copy;
    const double begin_ms = copying.begin_ms + StepMs(copying.step);
    const auto share = [&](double from_ms, double to_ms) {
      const double ms =
          std::min(to_ms, begin_ms + copy.ms) - std::max(from_ms, begin_ms);
      return std::max(0.0, ms / copy.ms);
    };
    double rest = 1;
    if (copy.stay >= 0) {
      const double before = share(begin_ms, EndMs(copy.parts[0].first - 1));
      (*point)[copy.stay] += before;
      rest -= before;
    }
    for (const Part& part : copy.parts) {
      const bool last = &part == &copy.parts.back();
      const double here =
          last ? rest
               : std::min(rest, share(EndMs(part.first - 1), EndMs(part.last)));
      (*point)[part.variable] = here;
      rest -= here;
    }
  }

  // After so many in a row each is like the one before.
  static constexpr int kSteps = 8;

  const Windows& all_;
  const StepTrace& trace_;
  const Plan& plan_;
  const PlanCost& cost_;
  const int64_t moments_;
  // By chunk, in their order.
  std::vector<std::vector<Issued>> fetches_, copies_back_;
};

void TightBound::Windows::SetIn(const Plan& plan, const PlanCost& cost,
                                std::vector<double>* point) const {
  if (windows_.empty()) return;
  Timeline(*this, plan, cost).SetIn(point);
  for (const Held& held : held_) {
    (*point)[held.variable] = held.always;
    if (held.before >= 0) (*point)[held.variable] += (*point)[held.before];
    for (const auto& [variable, mib] : held.changes) {
      (*point)[held.variable] += mib * (*point)[variable];
    }
  }
}

}  // namespace castor
