#include "run/program/overhead_meter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tracer/work_tag.h"

namespace castor {
namespace {

// More than the work of a step that others wait for.
constexpr size_t kMostEnds = 1 << 14;

int64_t HandoffNs(std::vector<int64_t> handoffs) {
  std::sort(handoffs.begin(), handoffs.end());
  handoffs.resize(handoffs.size() - handoffs.size() / 10);
  if (handoffs.empty()) return 0;
  int64_t sum = 0;
  for (const int64_t handoff : handoffs) sum += handoff;
  return sum / static_cast<int64_t>(handoffs.size());
}

}  // namespace

void RecentEnds::Add(const TimelineEvent& event) {
  if (event.wait) return;
  auto& ends = ends_[event.work.stream];
  ends.emplace_back(event.work.count, event.work.end_ns);
  if (ends.size() > kMostEnds) ends.pop_front();
}

int64_t RecentEnds::OverNs(const TimelineEvent& wait) const {
  int64_t over_ns = -1;
  for (const WaitRecord::Until& until : wait.until) {
    const auto& ends = ends_[until.stream];
    // Waits are items too: the last work up to the count.
    const auto after = std::partition_point(
        ends.begin(), ends.end(),
        [&](const auto& end) { return end.first <= until.count; });
    if (after != ends.begin()) {
      over_ns = std::max(over_ns, std::prev(after)->second);
    }
  }
  return over_ns;
}

void OverheadMeter::Add(const TimelineEvent& event, int64_t over_ns) {
  const WorkRecord& work = event.work;
  if (event.wait && over_ns >= work.start_ns && over_ns <= work.end_ns) {
    handoffs_[work.stream].push_back(work.end_ns - over_ns);
  }
  if (event.stream() != StreamId::kCompute) return;
  if (work.kind == WorkKind::kOther) {
    pending_ns_ += work.end_ns - work.start_ns;
  } else if (!event.wait && work.moment.value >= 0) {
    const size_t t = static_cast<size_t>(work.moment.value);
    if (t >= moved_ns_.size()) moved_ns_.resize(t + 1);
    moved_ns_[t] += std::exchange(pending_ns_, 0);
  }
}

void OverheadMeter::Merge(const OverheadMeter& other) {
  steps_ += other.steps_;
  moved_ns_.resize(std::max(moved_ns_.size(), other.moved_ns_.size()));
  for (size_t t = 0; t < other.moved_ns_.size(); ++t) {
    moved_ns_[t] += other.moved_ns_[t];
  }
  for (int i = 0; i < kNumStreams; ++i) {
    handoffs_[i].insert(handoffs_[i].end(), other.handoffs_[i].begin(),
                        other.handoffs_[i].end());
  }
}

Overheads OverheadMeter::Take(int64_t moments) const {
  Overheads overheads;
  overheads.moves.resize(moments);
  const size_t known = std::min(moved_ns_.size(), static_cast<size_t>(moments));
  for (size_t t = 0; t < known; ++t) {
    overheads.moves[t].duration_ns = moved_ns_[t] / steps_;
  }
  const auto handoff = [&](StreamId stream) {
    return HandoffNs(handoffs_[static_cast<int>(stream)]);
  };
  overheads.compute_handoff_ns = handoff(StreamId::kCompute);
  overheads.h2d_handoff_ns = handoff(StreamId::kHostToDevice);
  overheads.d2h_handoff_ns = handoff(StreamId::kDeviceToHost);
  overheads.host_handoff_ns = handoff(StreamId::kHostCompute);
  return overheads;
}

}  // namespace castor
