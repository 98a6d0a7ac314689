#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tracer/trace_file.h"
#include "tracer/trace_names.h"

namespace castor {
namespace {

// Keys in the order in which they are set, for people who read the file.
using Json = nlohmann::ordered_json;

absl::Status Failure(const std::string& path, absl::string_view what,
                     int error) {
  return absl::UnavailableError(absl::StrCat("trace file \"", path, "\" ", what,
                                             ": ", std::strerror(error)));
}

Json ChunkJson(const ChunkInfo& chunk) {
  return {{"payload_bytes", chunk.payload_bytes},
          {"optimizer_bytes", chunk.optimizer_bytes},
          {"parameters", chunk.parameters}};
}

Json OpJson(const OpRecord& op) {
  Json chunks = Json::array(), writes = Json::array();
  for (const ChunkUse& use : op.chunks) {
    chunks.push_back(use.chunk.value);
    if (use.writes) writes.push_back(use.chunk.value);
  }
  return {{"name", op.name},
          {"kind", trace_names::kKinds[static_cast<int>(op.kind)].data()},
          {"phase", trace_names::kPhases[static_cast<int>(op.phase)].data()},
          {"chunks", std::move(chunks)},
          {"writes", std::move(writes)},
          {"non_model_peak_bytes", op.non_model_peak_bytes},
          {"workspace_bytes", op.workspace_bytes},
          {"duration_ns", op.duration_ns},
          {"host_duration_ns", op.host_duration_ns}};
}

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(
    const std::string& path) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return Failure(path, "cannot be created", errno);
  std::unique_ptr<TraceWriter> writer(new TraceWriter(path, fd));
  CASTOR_RETURN_IF_ERROR(writer->WriteLine(Line(
      {{"format", trace_names::kFormat}, {"version", kTraceFormatVersion}})));
  return writer;
}

TraceWriter::TraceWriter(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

TraceWriter::~TraceWriter() { close(fd_); }

absl::Status TraceWriter::Append(const StepTrace& trace) {
  Json chunks = Json::array(), ops = Json::array();
  for (const ChunkInfo& chunk : trace.chunks) {
    chunks.push_back(ChunkJson(chunk));
  }
  for (const OpRecord& op : trace.ops) ops.push_back(OpJson(op));
  return WriteLine(Line({{"type", "step_trace"},
                         {"signature", trace.signature},
                         {"training", trace.training},
                         {"micro_batches", trace.micro_batches},
                         {"measured", trace.measured},
                         {"chunks", std::move(chunks)},
                         {"ops", std::move(ops)}}));
}

absl::Status TraceWriter::Append(const SpanRecord& span) {
  return WriteLine(Line({{"type", "span"},
                         {"stream", span.stream},
                         {"name", span.name},
                         {"start_ns", span.start_ns},
                         {"end_ns", span.end_ns},
                         {"step", span.step}}));
}

absl::Status TraceWriter::Append(const MemoryRecord& memory) {
  Json bytes = Json::object();
  for (const auto& [category, size] : memory.bytes) bytes[category] = size;
  return WriteLine(Line({{"type", "memory"},
                         {"tier", memory.tier},
                         {"time_ns", memory.time_ns},
                         {"bytes", std::move(bytes)}}));
}

absl::Status TraceWriter::WriteLine(std::string line) {
  if (static_cast<int64_t>(line.size()) > kMaxTraceLineBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a trace record of ", line.size(),
                     " bytes is larger than a trace file may hold"));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  for (size_t done = 0; done < line.size();) {
    const ssize_t wrote = write(fd_, line.data() + done, line.size() - done);
    if (wrote < 0) {
      if (errno == EINTR) continue;
      failure_ = Failure(path_, "cannot be written", errno);
      return failure_;
    }
    done += static_cast<size_t>(wrote);
  }
  return absl::OkStatus();
}

}  // namespace castor
