#include "run/program/duration_meter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/median.h"
#include "memory/plan/residency/use_index.h"
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

void DurationMeter::AddWait(const WorkRecord& waiter) {
  if (static_cast<StreamId>(waiter.stream) != StreamId::kCompute) return;
  last_end_ns_ = waiter.end_ns;
  last_tag_ = waiter.tag;
}

void DurationMeter::Merge(const DurationMeter& other) {
  const auto merge = [](ByMoment& into, const ByMoment& from) {
    into.resize(std::max(into.size(), from.size()));
    for (size_t t = 0; t < from.size(); ++t) {
      into[t].insert(into[t].end(), from[t].begin(), from[t].end());
    }
  };
  merge(device_, other.device_);
  merge(host_, other.host_);
  for (size_t i = 0; i < copies_.size(); ++i) {
    copies_[i].insert(copies_[i].end(), other.copies_[i].begin(),
                      other.copies_[i].end());
  }
  exchanges_.insert(exchanges_.end(), other.exchanges_.begin(),
                    other.exchanges_.end());
}

void DurationMeter::Add(const WorkRecord& work) {
  const auto stream = static_cast<StreamId>(work.stream);
  int64_t pause_ns = 0;
  if (stream == StreamId::kCompute) {
    // Between two steps compute may wait for the host thread.
    if (last_end_ns_ >= 0 && last_tag_ == work.tag) {
      pause_ns = std::max<int64_t>(0, work.start_ns - last_end_ns_);
    }
    AddWait(work);
  }
  const int64_t duration_ns = std::max<int64_t>(1, work.end_ns - work.start_ns);
  const int64_t chunk = work.chunk.value;
  if (stream == StreamId::kNetwork) {
    // On several ranks gradients are added up, and chunks of the device updated
    // behind that, on this stream; a collective within an update names no
    // chunk.
    const bool of_optimizer =
        work.kind == WorkKind::kReduce || work.kind == WorkKind::kUpdate;
    if (chunk < 0) return;
    if (!of_optimizer) {
      exchanges_.push_back({chunk, duration_ns});
      return;
    }
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
        works.back().pause_ns += pause_ns;
      } else {
        works.push_back({work.tag, duration_ns, pause_ns});
      }
      return;
    }
    default: {
      const CopyDirection direction = RowOf(work.kind).direction;
      if (direction == CopyDirection::kNone || chunk < 0) return;
      copies_[direction == CopyDirection::kToDevice ? 0 : 1].push_back(
          {chunk, duration_ns, work.moment.value});
      return;
    }
  }
}

void DurationMeter::Fill(Statistic statistic, StepTrace* trace,
                         BusModel* bus) const {
  const bool least = statistic == Statistic::kLeast;
  // By moment; 0: not measured.
  const auto reduced = [&](const ByMoment& side) {
    std::vector<int64_t> result(trace->ops.size(), 0);
    std::map<uint16_t, int64_t> of_step;
    int64_t sum = 0;
    for (size_t t = 0; t < std::min(side.size(), result.size()); ++t) {
      std::vector<int64_t> durations;
      for (const OfStep& of : side[t]) {
        durations.push_back(of.duration_ns + (least ? 0 : of.pause_ns));
        of_step[of.tag] += durations.back();
      }
      result[t] = Reduced(statistic, std::move(durations));
      sum += result[t];
    }
    if (least || sum == 0) return result;
    std::vector<int64_t> sums;
    for (const auto& [tag, of_all] : of_step) sums.push_back(of_all);
    const double scale =
        static_cast<double>(Median(std::move(sums))) / static_cast<double>(sum);
    for (int64_t& duration_ns : result) {
      if (duration_ns == 0) continue;
      duration_ns = std::max<int64_t>(
          1, std::llround(scale * static_cast<double>(duration_ns)));
    }
    return result;
  };
  const std::vector<int64_t> device_ns = reduced(device_);
  const std::vector<int64_t> host_ns = reduced(host_);
  const auto duration = [&](int64_t now, int64_t before) {
    if (now == 0 || before == 0 || !trace->measured || !least) return now;
    return std::min(now, before);
  };
  for (size_t t = 0; t < trace->ops.size(); ++t) {
    OpRecord& op = trace->ops[t];
    const int64_t device = duration(device_ns[t], op.duration_ns);
    const int64_t host = duration(host_ns[t], op.host_duration_ns);
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
      if (direction == 1 && MayBeSum(*trace, copy.moment, copy.chunk)) continue;
      ns += static_cast<double>(copy.duration_ns);
      // The other copies back are of gradients, whole.
      const ChunkInfo& chunk = trace->chunks[copy.chunk];
      bytes += static_cast<double>(direction == 0 ? chunk.home_bytes()
                                                  : chunk.payload_bytes) /
               static_cast<double>(chunk.pieces);
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
