#include "runtime/train/duration_meter.h"

#include <algorithm>
#include <utility>

#include "base/median.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

// 0: not measured.
int64_t Reduced(DurationMeter::Statistic statistic,
                std::vector<int64_t> durations) {
  if (durations.empty()) return 0;
  return statistic == DurationMeter::Statistic::kLeast
             ? *std::min_element(durations.begin(), durations.end())
             : Median(std::move(durations));
}

}  // namespace

void DurationMeter::Add(const WorkRecord& work) {
  const auto stream = static_cast<StreamId>(work.stream);
  const int64_t duration_ns = std::max<int64_t>(1, work.end_ns - work.start_ns);
  const int64_t chunk = work.chunk.value;
  if (stream == StreamId::kNetwork) {
    if (chunk >= 0) exchanges_.push_back({chunk, duration_ns});
    return;
  }
  switch (work.kind) {
    case WorkKind::kOperator:
    case WorkKind::kReduce:
    case WorkKind::kUpdate: {
      const int64_t moment = work.moment.value;
      if (moment < 0) return;
      ByMoment& side = stream == StreamId::kHostCompute ? host_ : device_;
      if (static_cast<size_t>(moment) >= side.size()) {
        side.resize(static_cast<size_t>(moment) + 1);
      }
      // A chunk's reduce or update may be several works, one after the other.
      std::vector<OfStep>& works = side[moment];
      if (work.kind != WorkKind::kOperator && !works.empty() &&
          works.back().tag == work.tag) {
        works.back().duration_ns += duration_ns;
      } else {
        works.push_back({work.tag, duration_ns});
      }
      return;
    }
    case WorkKind::kFetch:
    case WorkKind::kCopyBack:
      if (chunk < 0) return;
      copies_[work.kind == WorkKind::kFetch ? 0 : 1].push_back(
          {chunk, duration_ns});
      return;
    default:
      return;
  }
}

void DurationMeter::Fill(Statistic statistic, StepTrace* trace,
                         BusModel* bus) const {
  const auto duration = [&](const ByMoment& side, size_t t, int64_t before) {
    std::vector<int64_t> durations;
    if (t < side.size()) {
      for (const OfStep& of : side[t]) durations.push_back(of.duration_ns);
    }
    const int64_t now = Reduced(statistic, std::move(durations));
    if (now == 0 || before == 0 || !trace->measured ||
        statistic != Statistic::kLeast) {
      return now;
    }
    return std::min(now, before);
  };
  for (size_t t = 0; t < trace->ops.size(); ++t) {
    OpRecord& op = trace->ops[t];
    const int64_t device = duration(device_, t, op.duration_ns);
    const int64_t host = duration(host_, t, op.host_duration_ns);
    if (device == 0 && host == 0) continue;
    if (device > 0 || !trace->measured) {
      op.duration_ns = device > 0 ? device : host;
    }
    if (op.kind != OpKind::kCompute && (host > 0 || !trace->measured)) {
      op.host_duration_ns = host > 0 ? host : device;
    }
  }
  trace->measured = true;
  double* const speeds[2] = {&bus->h2d_bytes_per_s, &bus->d2h_bytes_per_s};
  for (int direction = 0; direction < 2; ++direction) {
    double ns = 0, bytes = 0;
    for (const Copy& copy : copies_[direction]) {
      if (copy.chunk >= static_cast<int64_t>(trace->chunks.size())) continue;
      ns += static_cast<double>(copy.duration_ns);
      // What comes back while durations are measured is gradients, whole.
      const ChunkInfo& chunk = trace->chunks[copy.chunk];
      bytes += static_cast<double>(direction == 0 ? chunk.home_bytes()
                                                  : chunk.payload_bytes);
    }
    if (ns > 0 && bytes > 0) *speeds[direction] = bytes / ns * 1e9;
  }
  double best = 0;
  for (const Copy& exchange : exchanges_) {
    if (exchange.chunk >= static_cast<int64_t>(trace->chunks.size())) continue;
    const ChunkInfo& chunk = trace->chunks[exchange.chunk];
    best = std::max(
        best, static_cast<double>(chunk.payload_bytes - chunk.home_bytes()) /
                  static_cast<double>(exchange.duration_ns));
  }
  if (best > 0) bus->network_bytes_per_s = best * 1e9;
}

}  // namespace castor
