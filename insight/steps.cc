#include "insight/steps.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

namespace castor {
namespace {

// Classes of time by rank: the first that holds counts.
enum Class {
  kCompute,
  kOptimizer,
  kLate,
  kNetwork,
  kCopies,
  kWaiting,
  kHostBusy,
  kNumClasses
};

Class ClassOf(ExposedTo to) {
  switch (to) {
    case ExposedTo::kOptimizer:
      return kOptimizer;
    case ExposedTo::kNetwork:
      return kNetwork;
    case ExposedTo::kLateRank:
      return kLate;
    case ExposedTo::kCopies:
      break;
  }
  return kCopies;
}

// Says for each class how much of [0, t) it names.
class Division {
 public:
  Division(const TraceIndex& index, const SpanList& list,
           const WaitCauses& causes) {
    for (size_t i = 0; i < list.spans.size(); ++i) {
      const TraceView::Span& span = list.spans[i];
      const bool wait = span.kind < 0;
      if (IsPause(list.links.kind[i])) continue;
      if (span.stream == index.compute()) {
        Cover(span.start_ns, span.end_ns, wait ? kWaiting : kCompute);
      } else if (!wait && span.stream == index.host_compute()) {
        Cover(span.start_ns, span.end_ns, kHostBusy);
      }
    }
    for (const ExposedPiece& piece : causes.pieces) {
      Cover(piece.start_ns, piece.end_ns, ClassOf(piece.to));
    }
    std::sort(edges_.begin(), edges_.end(),
              [](const Edge& a, const Edge& b) { return a.time < b.time; });
    std::array<int64_t, kNumClasses> open{};
    std::array<int64_t, kNumClasses> total{};
    int64_t last = 0;
    for (size_t i = 0; i < edges_.size();) {
      const int64_t time = edges_[i].time;
      const int now = Named(open);
      if (now < kNumClasses) total[now] += time - last;
      last = time;
      for (; i < edges_.size() && edges_[i].time == time; ++i) {
        open[edges_[i].what] += edges_[i].change;
      }
      points_.push_back({time, total, Named(open)});
    }
    edges_ = {};
  }

  std::array<int64_t, kNumClasses> Before(int64_t time) const {
    const auto after = std::partition_point(
        points_.begin(), points_.end(),
        [&](const Point& point) { return point.time <= time; });
    if (after == points_.begin()) return {};
    const Point& point = *(after - 1);
    std::array<int64_t, kNumClasses> total = point.total;
    if (point.now < kNumClasses) total[point.now] += time - point.time;
    return total;
  }

 private:
  struct Edge {
    int64_t time;
    Class what;
    int change;
  };
  struct Point {
    int64_t time;
    std::array<int64_t, kNumClasses> total;  // up to here
    int now;                                 // from here on
  };

  void Cover(int64_t start, int64_t end, Class what) {
    if (start >= end) return;
    edges_.push_back({start, what, 1});
    edges_.push_back({end, what, -1});
  }
  static int Named(const std::array<int64_t, kNumClasses>& open) {
    for (int c = 0; c < kNumClasses; ++c) {
      if (open[c] > 0) return c;
    }
    return kNumClasses;
  }

  std::vector<Edge> edges_;
  std::vector<Point> points_;
};

int64_t Time(int64_t ns) { return std::clamp<int64_t>(ns, 0, kMaxTraceNumber); }

}  // namespace

std::vector<TraceView::Step> BuildSteps(const TraceIndex& index,
                                        const SpanList& list,
                                        const WaitCauses& causes) {
  const TraceContents& contents = index.contents();
  const Division division(index, list, causes);
  std::vector<TraceView::Step> steps(contents.steps.size());

  // Adds up the spans and operators of each step.
  std::vector<int64_t> last_ns(steps.size(), -1);
  for (const TraceView::Span& span : list.spans) {
    if (span.step < 0) continue;
    last_ns[span.step] = std::max(last_ns[span.step], span.end_ns);
    const CopyDirection direction = DirectionOf(span);
    if (direction == CopyDirection::kToDevice) {
      steps[span.step].h2d_bytes =
          AddUpTo(steps[span.step].h2d_bytes, span.bytes);
    } else if (direction == CopyDirection::kToHost) {
      steps[span.step].d2h_bytes =
          AddUpTo(steps[span.step].d2h_bytes, span.bytes);
    } else if (IsBlockMove(index, span)) {
      ++steps[span.step].moves;
      steps[span.step].move_ns =
          AddUpTo(steps[span.step].move_ns, span.end_ns - span.start_ns);
    } else if (span.kind >= 0 && span.stream == index.network()) {
      steps[span.step].received_bytes =
          AddUpTo(steps[span.step].received_bytes, span.bytes);
    }
  }
  for (const IssueRecord& issue : contents.issues) {
    if (issue.step < 0 || issue.step >= static_cast<int64_t>(steps.size())) {
      continue;
    }
    int64_t& peak = steps[issue.step].device_peak_bytes;
    peak = std::max(peak, issue.used_bytes);
  }
  std::unordered_map<int64_t, const ResultRecord*> results;
  for (const ResultRecord& result : contents.results) {
    results[result.step] = &result;
  }

  int64_t before_ns = -1;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepRecord& record = contents.steps[i];
    TraceView::Step& step = steps[i];
    step.step = record.step;
    step.plan = index.PlanOfStep(i);
    const bool last = i + 1 == steps.size();
    const auto found =
        record.step > 0 ? results.find(record.step) : results.end();
    if (found != results.end()) {
      const ResultRecord& result = *found->second;
      step.whole = true;
      step.end_ns = Time(result.end_ns);
      step.start_ns = Time(step.end_ns - Time(result.duration_ns));
      step.h2d_bytes = result.h2d_bytes;
      step.d2h_bytes = result.d2h_bytes;
      step.sent_bytes = result.network_sent_bytes;
      step.received_bytes = result.network_received_bytes;
      step.loss = result.loss;
    } else {
      step.whole = record.step == 0 && (!last || contents.end.has_value());
      step.start_ns = before_ns >= 0 ? before_ns : Time(record.time_ns);
      step.end_ns = std::max(step.start_ns, last_ns[i]);
    }
    before_ns = step.end_ns;

    const auto begin = division.Before(step.start_ns);
    const auto end = division.Before(step.end_ns);
    auto named = [&](Class c) { return end[c] - begin[c]; };
    step.compute_ns = named(kCompute);
    step.optimizer_ns = named(kOptimizer) + named(kHostBusy);
    step.copy_ns = named(kCopies) + named(kWaiting);
    step.network_ns = named(kNetwork);
    step.late_ns = named(kLate);
    step.wait_ns = named(kOptimizer) + named(kCopies) + named(kWaiting) +
                   step.network_ns + step.late_ns;
    step.idle_ns = step.end_ns - step.start_ns - step.compute_ns -
                   step.optimizer_ns - step.copy_ns - step.network_ns -
                   step.late_ns;
  }
  return steps;
}

}  // namespace castor
