#include "insight/memory_curve.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace castor {
namespace {

int64_t Time(int64_t ns) { return std::clamp<int64_t>(ns, 0, kMaxTraceNumber); }

bool ByTime(const TraceView::MemoryPoint& a, const TraceView::MemoryPoint& b) {
  return a.time_ns < b.time_ns;
}

int64_t Sum(const std::vector<int64_t>& bytes) {
  int64_t sum = 0;
  for (const int64_t value : bytes) sum = AddUpTo(sum, value);
  return sum;
}

// The times at which operators start on the device, by step and moment.
class OperatorStarts {
 public:
  OperatorStarts(const TraceIndex& index, const SpanList& list) {
    for (const TraceView::Span& span : list.spans) {
      if (span.kind < 0 || span.stream != index.compute() || span.moment < 0) {
        continue;
      }
      starts_.push_back({span.step, span.moment, span.start_ns});
    }
    std::sort(starts_.begin(), starts_.end());
  }

  // The first span of it, or -1.
  int64_t Find(int64_t step, int64_t moment) const {
    const auto at = std::lower_bound(starts_.begin(), starts_.end(),
                                     std::make_tuple(step, moment, int64_t{0}));
    return at == starts_.end() || std::get<0>(*at) != step ||
                   std::get<1>(*at) != moment
               ? -1
               : std::get<2>(*at);
  }

 private:
  std::vector<std::tuple<int64_t, int64_t, int64_t>> starts_;
};

}  // namespace

std::vector<TraceView::MemoryPoint> DeviceCurve(const TraceIndex& index,
                                                const SpanList& list,
                                                size_t categories) {
  const OperatorStarts starts(index, list);
  const int64_t steps = static_cast<int64_t>(index.contents().steps.size());
  std::vector<TraceView::MemoryPoint> curve;
  curve.reserve(index.contents().issues.size());
  int64_t time_ns = -1;
  for (const IssueRecord& issue : index.contents().issues) {
    if (issue.bytes.size() != categories) continue;
    const int64_t start_ns = starts.Find(issue.step, issue.moment.value);
    // It is never before the issue: operators that run on the host have no
    // start here.
    time_ns = start_ns >= 0  ? start_ns
              : time_ns >= 0 ? time_ns
                             : Time(issue.time_ns);
    curve.push_back({time_ns, issue.step < steps ? issue.step : -1,
                     issue.moment.value, issue.bytes});
  }
  std::stable_sort(curve.begin(), curve.end(), ByTime);
  return curve;
}

std::vector<TraceView::MemoryPoint> HostCurve(const TraceIndex& index,
                                              size_t categories) {
  std::vector<TraceView::MemoryPoint> curve;
  for (const HostRecord& host : index.contents().hosts) {
    if (host.bytes.size() != categories) continue;
    curve.push_back({Time(host.time_ns), -1, -1, host.bytes});
  }
  std::stable_sort(curve.begin(), curve.end(), ByTime);
  return curve;
}

std::vector<BudgetRecord> BudgetChanges(const TraceIndex& index) {
  std::vector<BudgetRecord> changes = index.contents().budgets;
  for (BudgetRecord& change : changes) change.time_ns = Time(change.time_ns);
  std::stable_sort(changes.begin(), changes.end(),
                   [](const BudgetRecord& a, const BudgetRecord& b) {
                     return a.time_ns < b.time_ns;
                   });
  return changes;
}

std::vector<TraceView::PredictedPoint> PredictedCurve(
    const TraceIndex& index, const SpanList& list,
    const std::vector<TraceView::Step>& steps) {
  const OperatorStarts starts(index, list);
  std::vector<TraceView::PredictedPoint> curve;
  for (size_t s = 0; s < steps.size(); ++s) {
    const TraceView::Step& step = steps[s];
    const PlanRecord* const plan = index.Plan(step.plan);
    if (plan == nullptr) continue;
    int64_t time_ns = step.start_ns;
    for (size_t t = 0; t < plan->predicted.device_bytes.size(); ++t) {
      const int64_t start_ns =
          starts.Find(static_cast<int64_t>(s), static_cast<int64_t>(t));
      // The host's work, and work that was not recorded, get the time of the
      // operator before.
      if (start_ns >= 0) time_ns = start_ns;
      if (time_ns >= step.end_ns) break;
      if (static_cast<int64_t>(curve.size()) >= kMostPredictedPoints) {
        return curve;
      }
      curve.push_back({time_ns, plan->predicted.device_bytes[t]});
    }
  }
  std::stable_sort(
      curve.begin(), curve.end(),
      [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return curve;
}

std::optional<TraceView::Peak> FindPeak(
    const TraceIndex& index, const std::vector<TraceView::MemoryPoint>& curve) {
  const TraceView::MemoryPoint* most = nullptr;
  int64_t bytes = -1;
  for (const TraceView::MemoryPoint& point : curve) {
    const int64_t sum = Sum(point.bytes);
    if (sum > bytes) {
      bytes = sum;
      most = &point;
    }
  }
  if (most == nullptr) return std::nullopt;
  const int64_t program = index.ProgramOfStep(most->step);
  const OpRecord* const op = index.Op(program, most->moment);
  return TraceView::Peak{most->time_ns,
                         bytes,
                         most->step,
                         most->moment,
                         op == nullptr || op->name.empty()
                             ? OperatorText(index, program, most->moment)
                             : op->name,
                         most->bytes};
}

}  // namespace castor
