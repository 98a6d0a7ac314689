#include "run/report/step_meter.h"

#include <algorithm>
#include <utility>

namespace castor {

void StepMeter::Issued(uint16_t tag_step, StepReport report, int64_t plan) {
  by_tag_[tag_step] = issued_;
  open_[issued_] = {.report = std::move(report), .plan = plan};
  ++issued_;
}

void StepMeter::Settled(uint16_t tag_step, std::string overflow,
                        double next_loss_scale) {
  const auto tag = by_tag_.find(tag_step);
  if (tag == by_tag_.end()) return;
  StepReport& report = open_[tag->second].report;
  report.overflow = std::move(overflow);
  report.next_loss_scale = next_loss_scale;
}

void StepMeter::Collect() {
  const std::vector<TimelineEvent> events = timeline_->Take();
  for (const TimelineEvent& event : events) {
    exposure_.Add(event);
    ends_.Add(event);
  }
  for (const TimelineEvent& event : events) {
    const WorkRecord& work = event.work;
    const auto tag = by_tag_.find(work.tag);
    if (durations_.has_value() && !event.wait) durations_->Add(work);
    if (tag == by_tag_.end()) continue;
    Open& open = open_[tag->second];
    open.end_ns = std::max(open.end_ns, work.end_ns);
    if (open.plan != 0) {
      open.overheads.Add(event, event.wait ? ends_.OverNs(event) : -1);
      if (event.wait) {
        open.durations.AddWait(work);
      } else {
        open.durations.Add(work);
      }
    }
    if (event.wait && event.stream() == StreamId::kCompute) {
      open.wait_ns += work.end_ns - work.start_ns;
      exposure_.Divide(event, &open.exposed);
    }
    if (event.network.has_value()) {
      open.report.network_sent_bytes += event.network->sent_bytes;
      open.report.network_received_bytes += event.network->received_bytes;
    }
  }
}

void StepMeter::Finalise(std::map<uint64_t, Open>::iterator at) {
  Open& open = at->second;
  // Fetches for the next step at this one's end count for this one.
  const int64_t end = std::max(open.end_ns, last_end_ns_);
  open.report.end_ns = end;
  open.report.seconds = static_cast<double>(end - last_end_ns_) * 1e-9;
  open.report.stall_seconds = static_cast<double>(open.wait_ns) * 1e-9;
  open.report.network_wait_seconds =
      static_cast<double>(open.exposed.network_ns) * 1e-9;
  for (const int64_t late_ns : open.exposed.late_ns) {
    open.report.late_rank_seconds.push_back(static_cast<double>(late_ns) *
                                            1e-9);
  }
  last_end_ns_ = end;
  done_.push_back(open.report);
  if (open.plan == 0) return;
  finished_.push_back({.step = open.report.step,
                       .plan = open.plan,
                       .seconds = open.report.seconds,
                       .durations = std::move(open.durations),
                       .overheads = std::move(open.overheads)});
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

std::vector<FinishedStep> StepMeter::TakeFinished() {
  return std::exchange(finished_, {});
}

void StepMeter::StartMeasuring() {
  Collect();
  durations_.emplace();
}

void StepMeter::Measure(StepTrace* trace, BusModel* bus) {
  Collect();
  durations_->Fill(DurationMeter::Statistic::kLeast, trace, bus);
  durations_.reset();
}

}  // namespace castor
