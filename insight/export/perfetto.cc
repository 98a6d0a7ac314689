#include "insight/export/perfetto.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "insight/json_writer.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
// The thread of the steps. The process's names and counters belong to it, too.
constexpr int64_t kStepsThread = 1;

int64_t ThreadOf(int64_t stream) { return kStepsThread + 1 + stream; }

class Exporter {
 public:
  // Events of one rank into `json`, which stands within their list and writes
  // to `text`.
  Exporter(const TraceView& view,
           absl::FunctionRef<absl::Status(absl::string_view)> append,
           std::string* text, JsonWriter* json, int64_t first_id)
      : view_(view),
        append_(append),
        text_(*text),
        json_(*json),
        first_id_(first_id) {}

  absl::Status Export() {
    CASTOR_RETURN_IF_ERROR(WriteNames());
    CASTOR_RETURN_IF_ERROR(WriteSteps());
    CASTOR_RETURN_IF_ERROR(WriteSpans());
    CASTOR_RETURN_IF_ERROR(WriteCounters());
    return WritePeak();
  }

  void WriteOtherData() {
    json_.Key("otherData");
    json_.BeginObject();
    json_.String("source", view_.source);
    json_.String("status", view_.status);
    if (!view_.message.empty()) json_.String("message", view_.message);
    if (view_.run.has_value()) {
      json_.String("title", view_.run->title);
      json_.String("device", view_.run->device);
      json_.String("policy", view_.run->policy);
      json_.String(
          view_.budgets.empty() ? "device_budget" : "first_device_budget",
          FormatBytes(view_.run->device_budget_bytes));
      if (HasRanks()) {
        json_.String("ranks", absl::StrCat(view_.run->world_size));
      }
    }
    json_.EndObject();
  }

 private:
  bool HasRanks() const {
    return view_.run.has_value() && view_.run->world_size > 1;
  }
  int64_t process() const { return HasRanks() ? view_.run->rank + 1 : 1; }

  // Begins an event; its args, if any, and End follow.
  void Begin(absl::string_view phase, absl::string_view name, int64_t thread) {
    json_.BeginObject();
    json_.String("ph", phase);
    json_.String("name", name);
    json_.Int("pid", process());
    json_.Int("tid", thread);
  }
  absl::Status End() {
    json_.EndObject();
    if (text_.size() < kPieceBytes) return absl::OkStatus();
    const absl::Status status = append_(text_);
    text_.clear();
    return status;
  }

  // Nanoseconds as microseconds.
  void Time(absl::string_view key, int64_t ns) {
    ns = std::clamp<int64_t>(ns, 0, JsonWriter::kMaxInteger);
    json_.Key(key);
    json_.Raw(absl::StrFormat("%d.%03d", ns / 1000, ns % 1000));
  }

  absl::Status WriteName(absl::string_view what, int64_t thread,
                         absl::string_view name) {
    Begin("M", what, thread);
    json_.Key("args");
    json_.BeginObject();
    json_.String("name", name);
    json_.EndObject();
    return End();
  }

  absl::Status WriteOrder(int64_t thread) {
    Begin("M", "thread_sort_index", thread);
    json_.Key("args");
    json_.BeginObject();
    json_.Int("sort_index", thread);
    json_.EndObject();
    return End();
  }

  absl::Status WriteNames() {
    CASTOR_RETURN_IF_ERROR(WriteName(
        "process_name", kStepsThread,
        absl::StrCat("castor",
                     HasRanks() ? absl::StrCat(" rank ", view_.run->rank,
                                               " on ", view_.run->host)
                                : "",
                     view_.run.has_value() && !view_.run->title.empty()
                         ? absl::StrCat(": ", view_.run->title)
                         : "")));
    if (HasRanks()) {
      Begin("M", "process_sort_index", kStepsThread);
      json_.Key("args");
      json_.BeginObject();
      json_.Int("sort_index", view_.run->rank);
      json_.EndObject();
      CASTOR_RETURN_IF_ERROR(End());
    }
    CASTOR_RETURN_IF_ERROR(WriteName("thread_name", kStepsThread, "steps"));
    CASTOR_RETURN_IF_ERROR(WriteOrder(kStepsThread));
    for (size_t i = 0; i < view_.streams.size(); ++i) {
      const int64_t thread = ThreadOf(static_cast<int64_t>(i));
      CASTOR_RETURN_IF_ERROR(
          WriteName("thread_name", thread, view_.streams[i].label));
      CASTOR_RETURN_IF_ERROR(WriteOrder(thread));
    }
    return absl::OkStatus();
  }

  absl::Status WriteSteps() {
    for (const TraceView::Step& step : view_.steps) {
      Begin("X",
            step.step == 0 ? "evaluation" : absl::StrCat("step ", step.step),
            kStepsThread);
      json_.String("cat", "step");
      Time("ts", step.start_ns);
      Time("dur", step.end_ns - step.start_ns);
      json_.Key("args");
      json_.BeginObject();
      json_.Int("compute_ns", step.compute_ns);
      json_.Int("copy_ns", step.copy_ns);
      json_.Int("optimizer_ns", step.optimizer_ns);
      if (HasRanks()) {
        json_.Int("network_ns", step.network_ns);
        json_.Int("late_rank_ns", step.late_ns);
        json_.Int("sent_bytes", step.sent_bytes);
        json_.Int("received_bytes", step.received_bytes);
      }
      json_.Int("idle_ns", step.idle_ns);
      json_.Int("h2d_bytes", step.h2d_bytes);
      json_.Int("d2h_bytes", step.d2h_bytes);
      json_.Int("device_peak_bytes", step.device_peak_bytes);
      if (step.loss.has_value()) json_.Double("loss", *step.loss);
      json_.EndObject();
      CASTOR_RETURN_IF_ERROR(End());
    }
    return absl::OkStatus();
  }

  absl::string_view Text(int64_t index) const { return view_.strings[index]; }

  void IntIfAny(absl::string_view key, int64_t value) {
    if (value >= 0) json_.Int(key, value);
  }

  absl::Status WriteSpans() {
    for (size_t i = 0; i < view_.spans.size(); ++i) {
      const TraceView::Span& span = view_.spans[i];
      const bool wait = span.kind < 0;
      Begin("X", Text(span.label), ThreadOf(span.stream));
      json_.String(
          "cat", wait ? "wait" : RowOf(static_cast<WorkKind>(span.kind)).name);
      Time("ts", span.start_ns);
      Time("dur", span.end_ns - span.start_ns);
      json_.Key("args");
      json_.BeginObject();
      if (span.step >= 0) json_.Int("step", view_.steps[span.step].step);
      IntIfAny("moment", span.moment);
      IntIfAny("chunk", span.chunk);
      if (span.bytes > 0) json_.Int("bytes", span.bytes);
      IntIfAny("because_of_moment", span.because);
      IntIfAny("late_rank", span.late_rank);
      if (wait && span.cause >= 0) {
        json_.String("waited_for", Text(view_.spans[span.cause].label));
      }
      if (span.note >= 0) json_.String("why", Text(span.note));
      json_.EndObject();
      CASTOR_RETURN_IF_ERROR(End());
      if (wait) CASTOR_RETURN_IF_ERROR(WriteFlow(static_cast<int64_t>(i)));
    }
    return absl::OkStatus();
  }

  // An arrow is tied to the slices that its ends lie in: just before they end.
  absl::Status WriteFlow(int64_t i) {
    const TraceView::Span& wait = view_.spans[i];
    if (wait.cause < 0) return absl::OkStatus();
    const TraceView::Span& cause = view_.spans[wait.cause];
    const int64_t to = wait.end_ns - 1;
    const int64_t from = std::min(cause.end_ns - 1, to);
    if (to < wait.start_ns || from < cause.start_ns) return absl::OkStatus();
    for (const bool begins : {true, false}) {
      Begin(begins ? "s" : "f", "waited for",
            ThreadOf(begins ? cause.stream : wait.stream));
      json_.String("cat", "cause");
      json_.Int("id", first_id_ + i);
      Time("ts", begins ? from : to);
      if (!begins) json_.String("bp", "e");
      CASTOR_RETURN_IF_ERROR(End());
    }
    return absl::OkStatus();
  }

  absl::Status WriteCounter(absl::string_view name,
                            const TraceView::MemoryPoint& point) {
    Begin("C", name, kStepsThread);
    Time("ts", point.time_ns);
    json_.Key("args");
    json_.BeginObject();
    for (size_t c = 0; c < view_.categories.size(); ++c) {
      json_.Int(view_.categories[c], point.bytes[c]);
    }
    json_.EndObject();
    return End();
  }

  absl::Status WriteCounters() {
    for (const TraceView::MemoryPoint& point : view_.memory) {
      CASTOR_RETURN_IF_ERROR(WriteCounter("device bytes", point));
    }
    for (const TraceView::MemoryPoint& point : view_.host_memory) {
      CASTOR_RETURN_IF_ERROR(WriteCounter("host bytes", point));
    }
    for (const TraceView::PredictedPoint& point : view_.predicted_memory) {
      Begin("C", "predicted device bytes", kStepsThread);
      Time("ts", point.time_ns);
      json_.Key("args");
      json_.BeginObject();
      json_.Int("bytes", point.bytes);
      json_.EndObject();
      CASTOR_RETURN_IF_ERROR(End());
    }
    return absl::OkStatus();
  }

  absl::Status WritePeak() {
    if (!view_.peak.has_value()) return absl::OkStatus();
    Begin("i",
          absl::StrCat("device peak: ", FormatBytes(view_.peak->bytes), " at ",
                       view_.peak->op),
          ThreadOf(0));
    json_.String("cat", "memory");
    json_.String("s", "p");
    Time("ts", view_.peak->time_ns);
    json_.Key("args");
    json_.BeginObject();
    json_.Int("bytes", view_.peak->bytes);
    IntIfAny("moment", view_.peak->moment);
    json_.EndObject();
    return End();
  }

  const TraceView& view_;
  absl::FunctionRef<absl::Status(absl::string_view)> append_;
  std::string& text_;
  JsonWriter& json_;
  const int64_t first_id_;  // of its arrows
};

}  // namespace

absl::Status PerfettoJson(
    absl::Span<const TraceView> ranks,
    absl::FunctionRef<absl::Status(absl::string_view)> append) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.String("displayTimeUnit", "ns");
  int64_t first_id = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    Exporter exporter(ranks[i], append, &text, &json, first_id);
    if (i == 0) {
      exporter.WriteOtherData();
      json.Key("traceEvents");
      json.BeginArray();
    }
    CASTOR_RETURN_IF_ERROR(exporter.Export());
    first_id += static_cast<int64_t>(ranks[i].spans.size());
  }
  json.EndArray();
  json.EndObject();
  text.push_back('\n');
  return append(text);
}

absl::Status WritePerfetto(absl::Span<const TraceView> ranks,
                           const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(path));
  CASTOR_RETURN_IF_ERROR(PerfettoJson(ranks, [&](absl::string_view piece) {
    return file->Append(piece.data(), static_cast<int64_t>(piece.size()));
  }));
  return file->Commit();
}

}  // namespace castor
