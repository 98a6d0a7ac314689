#include "tracer/trace_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "nlohmann/json.hpp"
#include "tracer/trace_names.h"

namespace castor {
namespace {

// Keys in the order in which they are set, for people who read the file.
using Json = nlohmann::ordered_json;

Json Budget(int64_t bytes) {
  if (bytes >= kUnlimitedBytes) return nullptr;
  return bytes;
}

Json Numbers(const std::vector<ChunkId>& ids) {
  Json list = Json::array();
  for (const ChunkId id : ids) list.push_back(id.value);
  return list;
}

Json ChunkJson(const ChunkInfo& chunk) {
  Json json = {{"payload_bytes", chunk.payload_bytes},
               {"optimizer_bytes", chunk.optimizer_bytes},
               {"parameters", chunk.parameters}};
  if (chunk.shard_bytes > 0) json["shard_bytes"] = chunk.shard_bytes;
  if (chunk.sum_bytes > 0) json["sum_bytes"] = chunk.sum_bytes;
  if (chunk.holds_activations()) {
    json["block"] = chunk.block;
    json["pieces"] = chunk.pieces;
  }
  return json;
}

Json OpJson(const OpRecord& op) {
  Json chunks = Json::array(), writes = Json::array();
  for (const ChunkUse& use : op.chunks) {
    chunks.push_back(use.chunk.value);
    if (use.writes) writes.push_back(use.chunk.value);
  }
  Json json = {
      {"name", op.name},
      {"kind", trace_names::kKinds[static_cast<int>(op.kind)].data()},
      {"phase", trace_names::kPhases[static_cast<int>(op.phase)].data()},
      {"shapes", op.shapes},
      {"chunks", std::move(chunks)},
      {"writes", std::move(writes)},
      {"non_model_peak_bytes", op.non_model_peak_bytes},
      {"workspace_bytes", op.workspace_bytes},
      {"duration_ns", op.duration_ns},
      {"host_duration_ns", op.host_duration_ns}};
  if (op.reduced_bytes > 0) json["reduced_bytes"] = op.reduced_bytes;
  if (op.flops > 0) json["flops"] = op.flops;
  return json;
}

Json BlockJson(const BlockRecord& block) {
  Json json = {{"block", block.block},
               {"kept", block.kept},
               {"forward", block.forward.value},
               {"backward", block.backward.value},
               {"kept_bytes", block.kept_bytes},
               {"kept_peak_bytes", block.kept_peak_bytes},
               {"remake_bytes", block.remake_bytes}};
  if (block.offload_bytes > 0) {
    json["offload_pieces"] = block.offload_pieces;
    json["offload_bytes"] = block.offload_bytes;
    json["offloaded"] = block.offloaded;
  }
  return json;
}

Json PlanJson(const PlanRecord& plan) {
  Json actions = Json::array();
  for (const ActionRecord& action : plan.actions) {
    actions.push_back({action.moment.value, static_cast<int>(action.kind),
                       action.chunk.value, action.because.value});
  }
  const Prediction& predicted = plan.predicted;
  Json json = {{"type", "plan"},
               {"trace", plan.trace},
               {"policy", plan.policy},
               {"warmup", plan.warmup},
               {"refused", plan.refused},
               {"device_budget_bytes", Budget(plan.device_budget_bytes)},
               {"host_budget_bytes", Budget(plan.host_budget_bytes)},
               {"device_reserved_bytes", plan.device_reserved_bytes},
               {"host_reserved_bytes", plan.host_reserved_bytes},
               {"h2d_bytes_per_s", plan.h2d_bytes_per_s},
               {"d2h_bytes_per_s", plan.d2h_bytes_per_s},
               {"latency_ns", plan.latency_ns},
               {"prefetch", plan.prefetch},
               {"gpu_margin_mem_ratio", plan.gpu_margin_mem_ratio},
               {"fixed_sides", plan.fixed_sides},
               {"device_side", Numbers(plan.device_side)},
               {"initial", Numbers(plan.initial)},
               {"initial_dirty", Numbers(plan.initial_dirty)},
               {"actions", std::move(actions)},
               {"predicted",
                {{"step_ns", predicted.step_ns},
                 {"stall_ns", predicted.stall_ns},
                 {"h2d_bytes", predicted.h2d_bytes},
                 {"d2h_bytes", predicted.d2h_bytes},
                 {"device_peak_bytes", predicted.device_peak_bytes},
                 {"host_bytes", predicted.host_bytes},
                 {"least_h2d_bytes", predicted.least_h2d_bytes},
                 {"op_start_ns", predicted.op_start_ns},
                 {"device_bytes", predicted.device_bytes}}}};
  if (predicted.moves.has_value()) {
    json["predicted"]["moves"] = *predicted.moves;
    json["predicted"]["moved_bytes"] = predicted.moved_bytes.value_or(0);
  }
  if (plan.planned_addresses.has_value()) {
    json["planned_addresses"] = *plan.planned_addresses;
  }
  if (plan.world_size > 1) {
    json["world_size"] = plan.world_size;
    json["network_bytes_per_s"] = plan.network_bytes_per_s;
  }
  if (plan.speculation_host_bytes > 0) {
    json["speculation_host_bytes"] = Budget(plan.speculation_host_bytes);
    json["speculation_miss_rate"] = plan.speculation_miss_rate;
  }
  return json;
}

// Returns `text` as the reader will have it, cut to the length that it accepts.
std::string Clipped(const std::string& text) {
  constexpr auto kReplace = Json::error_handler_t::replace;
  std::string valid =
      Json::parse(Json(text).dump(-1, ' ', false, kReplace)).get<std::string>();
  if (static_cast<int64_t>(valid.size()) <= kMaxTraceNameBytes) return valid;
  size_t end = kMaxTraceNameBytes - 3;
  while (end > 0 && (valid[end] & 0xc0) == 0x80) --end;  // within a character
  return valid.substr(0, end) + "...";
}

// Keeps values to the reader's limits. Returns how many there are, or more than
// there may be where a list is too long.
int64_t Limit(Json& json) {
  int64_t values = 1;
  if (json.is_structured()) {
    if (json.is_array() && static_cast<int64_t>(json.size()) > kMaxTraceItems) {
      return kMaxTraceValues + 1;
    }
    for (Json& item : json) values += Limit(item);
  } else if (json.is_string()) {
    auto& text = json.get_ref<std::string&>();
    // A byte that is no UTF-8 becomes three.
    if (static_cast<int64_t>(text.size()) > kMaxTraceNameBytes / 3) {
      text = Clipped(text);
    }
  } else if (json.is_number_integer()) {
    json = std::clamp(json.get<int64_t>(), -kMaxTraceNumber, kMaxTraceNumber);
  }
  return values;
}

std::string Line(Json json) {
  if (Limit(json) > kMaxTraceValues) return "";
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// One array of numbers on a line, put together without touching the heap.
class ArrayLine {
 public:
  explicit ArrayLine(absl::string_view type) {
    Put("[\"");
    Put(type);
    Put("\"");
  }
  void Add(int64_t value) {
    CASTOR_CHECK(text_.data() + text_.size() - end_ > 32);
    Put(",");
    end_ = std::to_chars(end_, text_.data() + text_.size(), value).ptr;
  }
  absl::string_view Finish() {
    Put("]\n");
    return {text_.data(), static_cast<size_t>(end_ - text_.data())};
  }

 private:
  void Put(absl::string_view text) {
    std::memcpy(end_, text.data(), text.size());
    end_ += text.size();
  }

  // The longest: a type, 8 numbers and the categories or streams, of 21 bytes
  // each.
  std::array<char, 64 + 21 * (8 + kMaxTraceCategories)> text_;
  char* end_ = text_.data();
};

void AddWork(const WorkRecord& work, ArrayLine* line) {
  for (const int64_t value :
       {work.stream, work.count, static_cast<int64_t>(work.kind),
        int64_t{work.tag}, work.moment.value, work.chunk.value, work.start_ns,
        work.end_ns}) {
    line->Add(value);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(
    const std::string& path, int64_t ranks, int64_t max_bytes) {
  CASTOR_CHECK(max_bytes <= kMaxTraceBytes);
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file,
                          AppendFile::Create(path));
  std::unique_ptr<TraceWriter> writer(
      new TraceWriter(std::move(file), ranks, max_bytes));
  writer->Write(Line({{"format", trace_names::kFormat},
                      {"version", kTraceFormatVersion},
                      {"ranks", ranks}}));
  if (!writer->failure_.ok()) return writer->failure_;
  return writer;
}

void TraceWriter::Append(const RunRecord& run) {
  CASTOR_CHECK(run.world_size == ranks_);
  CASTOR_CHECK(static_cast<int64_t>(run.categories.size()) <=
               kMaxTraceCategories);
  CASTOR_CHECK(static_cast<int64_t>(run.streams.size()) <= kMaxTraceStreams);
  Json json = {{"type", "run"},
               {"title", run.title},
               {"device", run.device},
               {"policy", run.policy},
               {"device_budget_bytes", Budget(run.device_budget_bytes)},
               {"host_budget_bytes", Budget(run.host_budget_bytes)},
               {"steps", run.steps},
               {"tokens_per_step", run.tokens_per_step},
               {"threads", run.threads},
               {"categories", run.categories},
               {"streams", run.streams}};
  if (!run.activation_checkpointing.empty()) {
    json["activation_checkpointing"] = run.activation_checkpointing;
  }
  if (ranks_ > 1) {
    json["rank"] = run.rank;
    json["host"] = run.host;
    json["group"] = run.group;
  }
  Write(Line(json));
}

int64_t TraceWriter::Append(const StepTrace& trace) {
  Json chunks = Json::array(), ops = Json::array();
  for (const ChunkInfo& chunk : trace.chunks) {
    chunks.push_back(ChunkJson(chunk));
  }
  for (const OpRecord& op : trace.ops) ops.push_back(OpJson(op));
  Json json = {
      {"type", "step_trace"},        {"signature", trace.signature},
      {"training", trace.training},  {"micro_batches", trace.micro_batches},
      {"measured", trace.measured},  {"global_norm", trace.global_norm},
      {"chunks", std::move(chunks)}, {"ops", std::move(ops)}};
  for (const BlockRecord& block : trace.blocks) {
    json["blocks"].push_back(BlockJson(block));
  }
  Write(Line(std::move(json)));
  return step_traces_++;
}

int64_t TraceWriter::Append(const PlanRecord& plan) {
  Write(Line(PlanJson(plan)));
  return plans_++;
}

void TraceWriter::Append(const StepRecord& step) {
  Write(Line({{"type", "step"},
              {"tag", step.tag},
              {"step", step.step},
              {"plan", step.plan},
              {"time_ns", step.time_ns}}));
}

void TraceWriter::Append(const HostRecord& host) {
  ArrayLine line("host");
  line.Add(host.time_ns);
  for (const int64_t bytes : host.bytes) line.Add(bytes);
  Write(line.Finish());
}

void TraceWriter::Append(const BudgetRecord& budget) {
  Write(Line(
      {{"type", "budget"},
       {"time_ns", budget.time_ns},
       {"step", budget.step},
       {"from_bytes", Budget(budget.from_bytes)},
       {"to_bytes", Budget(budget.to_bytes)},
       {"asked_by", trace_names::kAskers[static_cast<int>(budget.asker)]}}));
}

void TraceWriter::Append(const ResultRecord& result) {
  Json json = {{"type", "result"},
               {"step", result.step},
               {"end_ns", result.end_ns},
               {"duration_ns", result.duration_ns},
               {"stall_ns", result.stall_ns},
               {"h2d_bytes", result.h2d_bytes},
               {"d2h_bytes", result.d2h_bytes},
               {"device_peak_bytes", result.device_peak_bytes},
               {"loss", result.loss}};
  if (ranks_ > 1) {
    json["network_sent_bytes"] = result.network_sent_bytes;
    json["network_received_bytes"] = result.network_received_bytes;
    json["network_wait_ns"] = result.network_wait_ns;
  }
  Write(Line(json));
}

void TraceWriter::Append(const RefusalRecord& refusal) {
  Write(Line({{"type", "refusal"},
              {"message", refusal.message},
              {"tier", refusal.tier},
              {"op", refusal.op},
              {"peak_bytes", refusal.peak_bytes},
              {"resident_bytes", refusal.resident_bytes},
              {"smallest_device_budget_bytes",
               Budget(refusal.smallest_device_budget_bytes)},
              {"smallest_host_budget_bytes",
               Budget(refusal.smallest_host_budget_bytes)}}));
}

void TraceWriter::Append(const EndRecord& end) {
  Write(Line({{"type", "end"},
              {"status", end.status},
              {"message", end.message},
              {"time_ns", end.time_ns}}));
}

void TraceWriter::Append(const ClockRecord& clock) {
  Write(Line({{"type", "clock"},
              {"time_ns", clock.time_ns},
              {"offset_ns", clock.offset_ns},
              {"error_ns", clock.error_ns}}));
}

void TraceWriter::AppendOp(int64_t tag, Moment moment, int64_t time_ns,
                           int64_t used_bytes,
                           absl::Span<const int64_t> bytes) {
  ArrayLine line("op");
  for (const int64_t value : {tag, moment.value, time_ns, used_bytes}) {
    line.Add(value);
  }
  for (const int64_t value : bytes) line.Add(value);
  Write(line.Finish());
}

void TraceWriter::Append(const WorkRecord& work) {
  ArrayLine line("work");
  AddWork(work, &line);
  Write(line.Finish());
}

void TraceWriter::Append(const WaitRecord& wait) {
  ArrayLine line("wait");
  AddWork(wait.waiter, &line);
  for (const WaitRecord::Until& one : wait.until) {
    line.Add(one.stream);
    line.Add(one.count);
  }
  Write(line.Finish());
}

void TraceWriter::Append(const NetworkRecord& network) {
  ArrayLine line("network");
  for (const int64_t value : {network.stream, network.count, network.sequence,
                              network.kind, network.last_rank, network.ready_ns,
                              network.sent_bytes, network.received_bytes}) {
    line.Add(value);
  }
  Write(line.Finish());
}

absl::Status TraceWriter::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void TraceWriter::Write(absl::string_view line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return;
  if (line.empty() || static_cast<int64_t>(line.size()) > kMaxTraceLineBytes) {
    failure_ = absl::InvalidArgumentError(absl::StrCat(
        "file \"", file_->path(), "\": the next record, of ",
        line.empty() ? "millions of values" : FormatBytes(line.size()),
        ", is larger than a trace may hold"));
    return;
  }
  if (file_->size() + static_cast<int64_t>(line.size()) > max_bytes_) {
    failure_ = absl::ResourceExhaustedError(absl::StrCat(
        "file \"", file_->path(), "\" has the ", FormatBytes(max_bytes_),
        " that it may have; fewer steps are traced with --trace-steps"));
    return;
  }
  failure_ = file_->Append(line);
}

void TraceWriter::Check() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.ok()) failure_ = file_->Check();
}

absl::StatusOr<std::string> TraceWriter::Place() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return file_->Place();
}

}  // namespace castor
