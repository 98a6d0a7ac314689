#include "insight/export/csv.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "insight/names.h"
#include "insight/utf8.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

// Cells one after the other, row by row.
class Rows {
 public:
  explicit Rows(absl::FunctionRef<absl::Status(absl::string_view)> append)
      : append_(append) {}

  Rows& Text(absl::string_view text) {
    Separate();
    const std::string valid = ValidUtf8(text);
    const bool formula =
        !valid.empty() &&
        absl::string_view("=+-@\t\r").find(valid[0]) != absl::string_view::npos;
    const bool quoted =
        formula || valid.find_first_of(",\"\r\n") != std::string::npos ||
        (!valid.empty() && (valid.front() == ' ' || valid.back() == ' '));
    if (!quoted) {
      absl::StrAppend(&text_, valid);
      return *this;
    }
    absl::StrAppend(&text_, formula ? "\"'" : "\"");
    for (const char c : valid) {
      if (c == '"') text_.push_back('"');
      text_.push_back(c);
    }
    text_.push_back('"');
    return *this;
  }
  Rows& Int(int64_t value) {
    Separate();
    absl::StrAppend(&text_, value);
    return *this;
  }
  // Where -1 stands for none.
  Rows& Index(int64_t value) { return value < 0 ? Text("") : Int(value); }
  Rows& Double(double value) {
    Separate();
    if (std::isfinite(value)) absl::StrAppendFormat(&text_, "%.9g", value);
    return *this;
  }
  Rows& Names(std::initializer_list<absl::string_view> names) {
    for (const absl::string_view name : names) Text(name);
    return *this;
  }

  absl::Status End() {
    text_.append("\r\n");
    first_ = true;
    return text_.size() < kPieceBytes ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    const absl::Status status =
        text_.empty() ? absl::OkStatus() : append_(text_);
    text_.clear();
    return status;
  }

 private:
  void Separate() {
    if (!first_) text_.push_back(',');
    first_ = false;
  }

  absl::FunctionRef<absl::Status(absl::string_view)> append_;
  std::string text_;
  bool first_ = true;
};

absl::string_view StreamOf(const TraceView& view, int64_t stream) {
  return view.streams[stream].name;
}

absl::Status Operators(const TraceView& view, Rows& rows) {
  CASTOR_RETURN_IF_ERROR(
      rows.Names({"program", "moment", "name", "phase", "kind", "shapes",
                  "count", "total_ns", "mean_ns", "max_ns", "wait_ns",
                  "peak_bytes", "non_model_peak_bytes", "flops"})
          .End());
  for (const TraceView::OperatorRow& row : view.operators) {
    const OpRecord& op = view.programs[row.program].ops[row.moment];
    CASTOR_RETURN_IF_ERROR(rows.Int(row.program)
                               .Int(row.moment)
                               .Text(op.name)
                               .Text(PhaseName(op.phase))
                               .Text(OpKindName(op.kind))
                               .Text(op.shapes)
                               .Int(row.count)
                               .Int(row.total_ns)
                               .Int(row.mean_ns())
                               .Int(row.max_ns)
                               .Int(row.wait_ns)
                               .Int(row.peak_bytes)
                               .Int(op.non_model_peak_bytes)
                               .Int(op.flops)
                               .End());
  }
  return absl::OkStatus();
}

absl::Status Modules(const TraceView& view, Rows& rows) {
  CASTOR_RETURN_IF_ERROR(
      rows.Names({"pattern", "module", "kind", "phase", "operators", "count",
                  "total_ns", "max_ns", "share", "flops", "flops_per_s",
                  "wait_ns", "peak_bytes"})
          .End());
  for (const TraceView::ModuleRow& row : view.modules) {
    CASTOR_RETURN_IF_ERROR(rows.Text(row.pattern)
                               .Text(row.module)
                               .Text(row.kind)
                               .Text(row.phase)
                               .Int(row.operators)
                               .Int(row.count)
                               .Int(row.total_ns)
                               .Int(row.max_ns)
                               .Double(row.share)
                               .Double(row.flops)
                               .Double(row.flops_per_s())
                               .Int(row.wait_ns)
                               .Int(row.peak_bytes)
                               .End());
  }
  return absl::OkStatus();
}

absl::Status Chunks(const TraceView& view, Rows& rows) {
  CASTOR_RETURN_IF_ERROR(
      rows.Names({"chunk", "parameters", "payload_bytes", "optimizer_bytes",
                  "side", "fetches", "fetched_bytes", "copied_back_bytes",
                  "resident_share", "wait_ns"})
          .End());
  for (const TraceView::ChunkRow& row : view.chunks) {
    CASTOR_RETURN_IF_ERROR(rows.Int(row.chunk)
                               .Text(row.parameters)
                               .Int(row.payload_bytes)
                               .Int(row.optimizer_bytes)
                               .Text(row.on_device_side ? "device" : "host")
                               .Int(row.fetches)
                               .Int(row.fetched_bytes)
                               .Int(row.copied_back_bytes)
                               .Double(row.resident_share)
                               .Int(row.wait_ns)
                               .End());
  }
  return absl::OkStatus();
}

absl::Status Blocks(const TraceView& view, Rows& rows) {
  CASTOR_RETURN_IF_ERROR(
      rows.Names({"block", "name", "choice", "forward", "backward",
                  "device_bytes", "host_bytes", "spared_bytes", "again_ns",
                  "copied_back_bytes", "fetched_bytes", "wait_ns", "chunk"})
          .End());
  for (const TraceView::BlockRow& row : view.blocks) {
    CASTOR_RETURN_IF_ERROR(rows.Int(row.block)
                               .Text(row.name)
                               .Text(row.choice)
                               .Index(row.forward)
                               .Index(row.backward)
                               .Int(row.device_bytes)
                               .Int(row.host_bytes)
                               .Int(row.spared_bytes)
                               .Int(row.again_ns)
                               .Int(row.copied_back_bytes)
                               .Int(row.fetched_bytes)
                               .Int(row.wait_ns)
                               .Index(row.chunk)
                               .End());
  }
  return absl::OkStatus();
}

absl::Status Waits(const TraceView& view, Rows& rows) {
  CASTOR_RETURN_IF_ERROR(rows.Names({"stream", "cause", "remedy", "count",
                                     "total_ns", "max_ns", "longest_span"})
                             .End());
  for (const TraceView::WaitRow& row : view.waits) {
    CASTOR_RETURN_IF_ERROR(rows.Text(StreamOf(view, row.stream))
                               .Text(row.cause)
                               .Text(row.remedy)
                               .Int(row.count)
                               .Int(row.total_ns)
                               .Int(row.max_ns)
                               .Index(row.longest_span)
                               .End());
  }
  return absl::OkStatus();
}

absl::Status Steps(const TraceView& view, Rows& rows) {
  CASTOR_RETURN_IF_ERROR(
      rows.Names({"step",         "kind",          "plan",
                  "policy",       "whole",         "start_ns",
                  "end_ns",       "compute_ns",    "copy_ns",
                  "optimizer_ns", "idle_ns",       "wait_ns",
                  "h2d_bytes",    "d2h_bytes",     "device_peak_bytes",
                  "loss",         "network_ns",    "late_rank_ns",
                  "sent_bytes",   "received_bytes"})
          .End());
  for (const TraceView::Step& step : view.steps) {
    const PlanRecord* const plan =
        step.plan < 0 ? nullptr : &view.plans[step.plan].record;
    rows.Int(step.step)
        .Text(step.step == 0                    ? "evaluation"
              : plan != nullptr && plan->warmup ? "warm-up"
                                                : "training")
        .Index(step.plan)
        .Text(plan == nullptr ? "" : plan->policy)
        .Text(step.whole ? "yes" : "no")
        .Int(step.start_ns)
        .Int(step.end_ns)
        .Int(step.compute_ns)
        .Int(step.copy_ns)
        .Int(step.optimizer_ns)
        .Int(step.idle_ns)
        .Int(step.wait_ns)
        .Int(step.h2d_bytes)
        .Int(step.d2h_bytes)
        .Int(step.device_peak_bytes);
    if (step.loss.has_value()) {
      rows.Double(*step.loss);
    } else {
      rows.Text("");
    }
    rows.Int(step.network_ns)
        .Int(step.late_ns)
        .Int(step.sent_bytes)
        .Int(step.received_bytes);
    CASTOR_RETURN_IF_ERROR(rows.End());
  }
  return absl::OkStatus();
}

absl::Status Spans(const TraceView& view, Rows& rows) {
  CASTOR_RETURN_IF_ERROR(
      rows.Names({"span", "stream", "kind", "label", "step", "moment", "chunk",
                  "start_ns", "end_ns", "bytes", "because_of_moment",
                  "cause_span", "note", "late_rank"})
          .End());
  for (size_t i = 0; i < view.spans.size(); ++i) {
    const TraceView::Span& span = view.spans[i];
    rows.Int(static_cast<int64_t>(i))
        .Text(StreamOf(view, span.stream))
        .Text(span.kind < 0 ? "wait"
                            : RowOf(static_cast<WorkKind>(span.kind)).name)
        .Text(view.strings[span.label])
        .Index(span.step < 0 ? -1 : view.steps[span.step].step)
        .Index(span.moment)
        .Index(span.chunk)
        .Int(span.start_ns)
        .Int(span.end_ns)
        .Int(span.bytes)
        .Index(span.because)
        .Index(span.cause)
        .Text(span.note < 0 ? absl::string_view()
                            : absl::string_view(view.strings[span.note]))
        .Index(span.late_rank);
    CASTOR_RETURN_IF_ERROR(rows.End());
  }
  return absl::OkStatus();
}

absl::Status Memory(const TraceView& view, Rows& rows) {
  rows.Names({"tier", "time_ns", "step", "moment"});
  for (const std::string& category : view.categories) {
    rows.Text(
        absl::StrCat(absl::StrReplaceAll(category, {{" ", "_"}}), "_bytes"));
  }
  CASTOR_RETURN_IF_ERROR(rows.End());
  for (const bool device : {true, false}) {
    for (const TraceView::MemoryPoint& point :
         device ? view.memory : view.host_memory) {
      rows.Text(device ? "device" : "host")
          .Int(point.time_ns)
          .Index(point.step < 0 ? -1 : view.steps[point.step].step)
          .Index(point.moment);
      for (const int64_t bytes : point.bytes) rows.Int(bytes);
      CASTOR_RETURN_IF_ERROR(rows.End());
    }
  }
  return absl::OkStatus();
}

struct Table {
  const char* name;
  absl::Status (*write)(const TraceView&, Rows&);
};
constexpr Table kTables[] = {{"operators", Operators}, {"modules", Modules},
                             {"chunks", Chunks},       {"waits", Waits},
                             {"steps", Steps},         {"spans", Spans},
                             {"memory", Memory},       {"blocks", Blocks}};

// Writes all tables into a directory, which is made if it is missing, to files
// that are yet to be committed.
absl::Status WriteTables(const TraceView& view, const std::string& directory,
                         std::vector<std::unique_ptr<AtomicFile>>* files) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error || !std::filesystem::is_directory(directory, error)) {
    return absl::UnavailableError(absl::StrCat(
        "cannot make the directory \"", directory,
        "\": ", error ? error.message() : "something else has its name"));
  }
  for (const std::string& table : CsvTableNames()) {
    CASTOR_ASSIGN_OR_RETURN(
        std::unique_ptr<AtomicFile> file,
        AtomicFile::Create(absl::StrCat(directory, "/", table, ".csv")));
    CASTOR_RETURN_IF_ERROR(CsvTable(view, table, [&](absl::string_view piece) {
      return file->Append(piece.data(), static_cast<int64_t>(piece.size()));
    }));
    files->push_back(std::move(file));
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& CsvTableNames() {
  static const std::vector<std::string>& names = *[] {
    auto* all = new std::vector<std::string>();
    for (const Table& table : kTables) all->push_back(table.name);
    return all;
  }();
  return names;
}

absl::Status CsvTable(
    const TraceView& view, absl::string_view table,
    absl::FunctionRef<absl::Status(absl::string_view)> append) {
  for (const Table& known : kTables) {
    if (table != known.name) continue;
    Rows rows(append);
    CASTOR_RETURN_IF_ERROR(known.write(view, rows));
    return rows.Flush();
  }
  return absl::NotFoundError(
      absl::StrCat("a trace has no table \"", table,
                   "\": there are operators, chunks, waits, steps, spans, "
                   "memory and blocks"));
}

absl::StatusOr<std::vector<std::string>> WriteCsvOfRanks(
    absl::Span<const TraceView> ranks, const std::string& directory) {
  // None takes its name before the last one is written.
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (const TraceView& view : ranks) {
    const int64_t rank = view.run.has_value() ? view.run->rank : 0;
    CASTOR_RETURN_IF_ERROR(
        WriteTables(view,
                    ranks.size() == 1
                        ? directory
                        : absl::StrCat(directory, "/", CsvRankDirectory(rank)),
                    &files));
  }
  std::vector<std::string> paths;
  for (const std::unique_ptr<AtomicFile>& file : files) {
    CASTOR_RETURN_IF_ERROR(file->Commit());
    paths.push_back(file->path());
  }
  return paths;
}

std::string CsvRankDirectory(int64_t rank) {
  return absl::StrCat("rank-", rank);
}

absl::StatusOr<std::vector<std::string>> WriteCsv(
    const TraceView& view, const std::string& directory) {
  return WriteCsvOfRanks({view}, directory);
}

}  // namespace castor
