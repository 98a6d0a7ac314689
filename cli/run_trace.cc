#include "cli/run_trace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

MemoryRecord MemoryOf(absl::string_view tier, int64_t time_ns,
                      const BytesByCategory& bytes) {
  MemoryRecord record = {
      .tier = std::string(tier), .time_ns = time_ns, .bytes = {}};
  for (int i = 0; i < kNumCategories; ++i) {
    const Category category = static_cast<Category>(i);
    record.bytes[std::string(CategoryName(category))] = bytes[category];
  }
  return record;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunTrace>> RunTrace::Create(
    const std::string& path, Trainer* trainer, int64_t last_step) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer,
                          TraceWriter::Create(path));
  std::unique_ptr<RunTrace> trace(
      new RunTrace(std::move(writer), trainer, last_step));
  CASTOR_RETURN_IF_ERROR(trace->Update());
  return trace;
}

RunTrace::RunTrace(std::unique_ptr<TraceWriter> writer, Trainer* trainer,
                   int64_t last_step)
    : writer_(std::move(writer)),
      trainer_(trainer),
      last_step_(last_step),
      origin_ns_(trainer->NowNs()) {
  trainer_->SetEventSink([this](const TimelineEvent& event, int64_t step) {
    OnEvent(event, step);
  });
}

RunTrace::~RunTrace() { trainer_->SetEventSink(nullptr); }

void RunTrace::OnEvent(const TimelineEvent& event, int64_t step) {
  if (step == 0 || step > last_step_ || !status_.ok()) return;
  const StepTrace* trace = trainer_->training_trace();
  std::string name;
  if (event.wait) name = "wait: ";
  const bool has_op =
      event.tag.moment >= 0 &&
      event.tag.moment < static_cast<int64_t>(trace->ops.size());
  if ((event.tag.kind == WorkKind::kOperator ||
       event.tag.kind == WorkKind::kInput) &&
      has_op) {
    absl::StrAppend(&name, trace->ops[event.tag.moment].name);
    if (event.wait && event.tag.chunk >= 0) {
      absl::StrAppend(&name, " needs chunk ", event.tag.chunk);
    }
  } else {
    absl::StrAppend(&name, WorkKindName(event.tag.kind));
    if (event.tag.chunk >= 0)
      absl::StrAppend(&name, " chunk ", event.tag.chunk);
  }
  const int64_t start = std::max<int64_t>(0, event.start_ns - origin_ns_);
  status_ = writer_->Append(
      SpanRecord{.stream = std::string(StreamName(event.stream)),
                 .name = std::move(name),
                 .start_ns = start,
                 .end_ns = std::max(start, event.end_ns - origin_ns_),
                 .step = step});
}

absl::Status RunTrace::Update() {
  CASTOR_RETURN_IF_ERROR(status_);
  const StepTrace* trace = trainer_->training_trace();
  bool& wrote = trace->measured ? wrote_measured_ : wrote_estimated_;
  if (!wrote) {
    wrote = true;
    CASTOR_RETURN_IF_ERROR(writer_->Append(*trace));
  }
  if (trainer_->step() > last_step_) return absl::OkStatus();
  const int64_t now = trainer_->NowNs() - origin_ns_;
  CASTOR_RETURN_IF_ERROR(writer_->Append(
      MemoryOf("device", now, trainer_->arena_stats().used)));
  CASTOR_RETURN_IF_ERROR(
      writer_->Append(MemoryOf("host", now, trainer_->host_stats().used)));
  if (trainer_->arena_stats().peak_bytes == peak_bytes_) {
    return absl::OkStatus();
  }
  peak_bytes_ = trainer_->arena_stats().peak_bytes;
  return writer_->Append(MemoryOf("device_peak", now,
                                  trainer_->arena_stats().used_at_peak));
}

}  // namespace castor::cli
