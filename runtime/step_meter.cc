#include "runtime/step_meter.h"

#include <algorithm>
#include <utility>

namespace castor {

void StepMeter::Issued(uint16_t tag_step, StepReport report) {
  by_tag_[tag_step] = issued_;
  open_[issued_] = {.report = report};
  ++issued_;
}

void StepMeter::Collect() {
  for (const TimelineEvent& event : timeline_->Take()) {
    const auto tag = by_tag_.find(event.tag.step);
    if (sink_) {
      sink_(event, tag == by_tag_.end() ? 0 : open_[tag->second].report.step);
    }
    if (measuring_) unmeasured_.push_back(event);
    if (tag == by_tag_.end()) continue;
    Open& open = open_[tag->second];
    open.end_ns = std::max(open.end_ns, event.end_ns);
    if (event.wait && event.stream == StreamId::kCompute) {
      open.wait_ns += event.end_ns - event.start_ns;
    }
  }
}

void StepMeter::Finalise(std::map<uint64_t, Open>::iterator at) {
  Open& open = at->second;
  // What is fetched for the next step at this one's end counts for this one.
  const int64_t end = std::max(open.end_ns, last_end_ns_);
  open.report.seconds = static_cast<double>(end - last_end_ns_) * 1e-9;
  open.report.stall_seconds = static_cast<double>(open.wait_ns) * 1e-9;
  last_end_ns_ = end;
  done_.push_back(open.report);
}

void StepMeter::FinaliseBefore(uint16_t tag_step) {
  Collect();
  const auto tag = by_tag_.find(tag_step);
  if (tag == by_tag_.end()) return;
  const uint64_t limit = tag->second;
  while (!open_.empty() && open_.begin()->first < limit) {
    Finalise(open_.begin());
    open_.erase(open_.begin());
  }
  std::erase_if(by_tag_, [&](const auto& e) { return e.second < limit; });
}

void StepMeter::FinaliseAll() {
  Collect();
  for (auto at = open_.begin(); at != open_.end(); ++at) Finalise(at);
  open_.clear();
  by_tag_.clear();
}

std::vector<StepReport> StepMeter::TakeReports() {
  return std::exchange(done_, {});
}

void StepMeter::StartMeasuring() {
  Collect();
  unmeasured_.clear();
  measuring_ = true;
}

void StepMeter::Measure(StepTrace* trace, BusModel* bus) {
  Collect();
  const size_t ops = trace->ops.size();
  std::vector<int64_t> device(ops, 0), host(ops, 0);
  double ns[2] = {0, 0}, bytes[2] = {0, 0};
  auto take_least = [](int64_t& slot, int64_t value) {
    if (value > 0) slot = slot == 0 ? value : std::min(slot, value);
  };
  for (const TimelineEvent& event : unmeasured_) {
    if (event.wait) continue;
    const int64_t duration =
        std::max<int64_t>(1, event.end_ns - event.start_ns);
    switch (event.tag.kind) {
      case WorkKind::kOperator:
      case WorkKind::kReduce:
      case WorkKind::kUpdate:
        if (event.tag.moment < 0 ||
            event.tag.moment >= static_cast<int64_t>(ops)) {
          break;
        }
        take_least(event.stream == StreamId::kHostCompute
                       ? host[event.tag.moment]
                       : device[event.tag.moment],
                   duration);
        break;
      case WorkKind::kFetch:
      case WorkKind::kCopyBack: {
        if (event.tag.chunk < 0) break;
        const int direction = event.tag.kind == WorkKind::kFetch ? 0 : 1;
        ns[direction] += static_cast<double>(duration);
        bytes[direction] += static_cast<double>(
            trace->chunks[event.tag.chunk].payload_bytes);
        break;
      }
      default:
        break;
    }
  }
  for (size_t t = 0; t < ops; ++t) {
    OpRecord& op = trace->ops[t];
    if (trace->measured) {  // by an earlier step
      take_least(device[t], op.duration_ns);
      take_least(host[t], op.host_duration_ns);
    }
    // Measured on one side, an optimizer's operator is taken to last as long on
    // the other.
    const int64_t one = device[t] > 0 ? device[t] : host[t];
    if (one == 0) continue;
    op.duration_ns = one;
    if (op.kind != OpKind::kCompute) {
      op.host_duration_ns = host[t] > 0 ? host[t] : one;
    }
  }
  trace->measured = true;
  if (ns[0] > 0) bus->h2d_bytes_per_s = bytes[0] / ns[0] * 1e9;
  if (ns[1] > 0) bus->d2h_bytes_per_s = bytes[1] / ns[1] * 1e9;
  unmeasured_.clear();
  measuring_ = false;
}

}  // namespace castor
