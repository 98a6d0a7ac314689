#include "insight/view_json.h"

#include <optional>
#include <utility>

#include "insight/json_writer.h"
#include "insight/names.h"
#include "tracer/trace_names.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

class Writer {
 public:
  Writer(const TraceView& view, JsonWriter& json) : view_(view), json_(json) {}

  void Write() {
    json_.BeginObject();
    json_.Int("version", kViewVersion);
    json_.String("source", view_.source);
    json_.String("status", view_.status);
    json_.String("message", view_.message);
    json_.Bool("truncated", view_.truncated);
    WriteRun();
    Strings("categories", view_.categories);
    List("streams", view_.streams, [&](const TraceView::Stream& stream) {
      json_.BeginObject();
      json_.String("name", stream.name);
      json_.String("label", stream.label);
      json_.EndObject();
    });
    List("kinds", kWorkRows, [&](const WorkRow& row) {
      json_.BeginObject();
      json_.String("name", row.name);
      json_.String("color", row.color);
      json_.Bool("copies", row.direction != CopyDirection::kNone);
      json_.EndObject();
    });
    List("programs", view_.programs,
         [&](const TraceView::Program& program) { WriteProgram(program); });
    List("plans", view_.plans,
         [&](const TraceView::Plan& plan) { WritePlan(plan); });
    List("steps", view_.steps,
         [&](const TraceView::Step& step) { WriteStep(step); });
    WriteResults();
    WriteSpans();
    Strings("strings", view_.strings);
    WriteMemory();
    WriteResidency();
    json_.Key("tables");
    json_.BeginObject();
    WriteOperators();
    WriteModules();
    WriteChunks();
    WriteBlocks();
    WriteWaits();
    json_.EndObject();
    WriteSummary();
    WriteRefusal();
    json_.EndObject();
  }

 private:
  template <typename Items, typename Write>
  void List(absl::string_view key, const Items& items, const Write& write) {
    json_.Key(key);
    json_.BeginArray();
    for (const auto& item : items) write(item);
    json_.EndArray();
  }
  template <typename Items, typename Get>
  void Ints(absl::string_view key, const Items& items, const Get& get) {
    List(key, items, [&](const auto& item) { json_.Int(get(item)); });
  }
  template <typename Items, typename Get>
  void Texts(absl::string_view key, const Items& items, const Get& get) {
    List(key, items, [&](const auto& item) { json_.String(get(item)); });
  }
  void Ints(absl::string_view key, const std::vector<int64_t>& values) {
    Ints(key, values, [](int64_t value) { return value; });
  }
  void Strings(absl::string_view key, const std::vector<std::string>& values) {
    Texts(key, values,
          [](const std::string& v) { return absl::string_view(v); });
  }
  void Budget(absl::string_view key, int64_t bytes) {
    json_.Key(key);
    Budget(bytes);
  }
  void Budget(int64_t bytes) {
    bytes >= kUnlimitedBytes ? json_.Null() : json_.Int(bytes);
  }

  template <typename Items, typename Get>
  void Budgets(absl::string_view key, const Items& items, const Get& get) {
    List(key, items, [&](const auto& item) { Budget(get(item)); });
  }

  void OptionalInt(absl::string_view key, const std::optional<int64_t>& value) {
    json_.Key(key);
    value.has_value() ? json_.Int(*value) : json_.Null();
  }
  void OptionalBool(absl::string_view key, const std::optional<bool>& value) {
    json_.Key(key);
    value.has_value() ? json_.Bool(*value) : json_.Null();
  }

  void WriteRun() {
    json_.Key("run");
    if (!view_.run.has_value()) return json_.Null();
    const RunRecord& run = *view_.run;
    json_.BeginObject();
    json_.String("title", run.title);
    json_.String("device", run.device);
    json_.String("policy", run.policy);
    Budget("device_budget_bytes", run.device_budget_bytes);
    Budget("host_budget_bytes", run.host_budget_bytes);
    json_.Int("steps", run.steps);
    json_.Int("tokens_per_step", run.tokens_per_step);
    json_.Int("threads", run.threads);
    json_.Int("rank", run.rank);
    json_.Int("world_size", run.world_size);
    json_.String("host", run.host);
    json_.Int("clock_error_ns", view_.clock_error_ns);
    json_.EndObject();
  }

  void WriteProgram(const TraceView::Program& program) {
    json_.BeginObject();
    json_.String("signature", program.signature);
    json_.Bool("training", program.training);
    json_.Int("micro_batches", program.micro_batches);
    List("chunks", program.chunks, [&](const TraceView::Chunk& chunk) {
      json_.BeginObject();
      json_.Int("payload_bytes", chunk.payload_bytes);
      json_.Int("optimizer_bytes", chunk.optimizer_bytes);
      Strings("parameters", chunk.parameters);
      Ints("uses", chunk.uses);
      json_.Int("block", chunk.block);
      json_.EndObject();
    });
    const std::vector<OpRecord>& ops = program.ops;
    json_.Key("ops");
    json_.BeginObject();
    Texts("name", ops,
          [](const OpRecord& op) { return absl::string_view(op.name); });
    Texts("kind", ops, [](const OpRecord& op) { return OpKindName(op.kind); });
    Texts("phase", ops, [](const OpRecord& op) { return PhaseName(op.phase); });
    Texts("shapes", ops,
          [](const OpRecord& op) { return absl::string_view(op.shapes); });
    Ints("non_model_peak_bytes", ops,
         [](const OpRecord& op) { return op.non_model_peak_bytes; });
    Ints("workspace_bytes", ops,
         [](const OpRecord& op) { return op.workspace_bytes; });
    Ints("duration_ns", ops, [](const OpRecord& op) { return op.duration_ns; });
    Ints("host_duration_ns", ops,
         [](const OpRecord& op) { return op.host_duration_ns; });
    Ints("flops", ops, [](const OpRecord& op) { return op.flops; });
    Ints("kept_bytes", program.kept_bytes);
    for (const bool writes : {false, true}) {
      List(writes ? "writes" : "chunks", ops, [&](const OpRecord& op) {
        json_.BeginArray();
        for (const ChunkUse& use : op.chunks) {
          if (!writes || use.writes) json_.Int(use.chunk.value);
        }
        json_.EndArray();
      });
    }
    json_.EndObject();
    json_.EndObject();
  }

  void WritePlan(const TraceView::Plan& plan) {
    const PlanRecord& record = plan.record;
    json_.BeginObject();
    json_.Int("program", plan.program);
    json_.String("policy", record.policy);
    json_.Bool("warmup", record.warmup);
    json_.Bool("prefetch", record.prefetch);
    Budget("device_budget_bytes", record.device_budget_bytes);
    Budget("host_budget_bytes", record.host_budget_bytes);
    json_.Double("h2d_bytes_per_s", record.h2d_bytes_per_s);
    json_.Double("d2h_bytes_per_s", record.d2h_bytes_per_s);
    Ints("device_side", record.device_side,
         [](ChunkId chunk) { return chunk.value; });
    OptionalBool("planned_addresses", record.planned_addresses);
    Ints("activation_bytes", plan.activation_bytes);
    const Prediction& predicted = record.predicted;
    json_.Key("predicted");
    json_.BeginObject();
    json_.Int("step_ns", predicted.step_ns);
    json_.Int("stall_ns", predicted.stall_ns);
    json_.Int("h2d_bytes", predicted.h2d_bytes);
    json_.Int("d2h_bytes", predicted.d2h_bytes);
    json_.Int("device_peak_bytes", predicted.device_peak_bytes);
    json_.Int("host_bytes", predicted.host_bytes);
    json_.Int("least_h2d_bytes", predicted.least_h2d_bytes);
    OptionalInt("moves", predicted.moves);
    OptionalInt("moved_bytes", predicted.moved_bytes);
    json_.EndObject();
    json_.EndObject();
  }

  void WriteStep(const TraceView::Step& step) {
    json_.BeginObject();
    json_.Int("step", step.step);
    json_.Int("plan", step.plan);
    json_.Int("start_ns", step.start_ns);
    json_.Int("end_ns", step.end_ns);
    json_.Bool("whole", step.whole);
    json_.Int("compute_ns", step.compute_ns);
    json_.Int("wait_ns", step.wait_ns);
    json_.Int("optimizer_ns", step.optimizer_ns);
    json_.Int("copy_ns", step.copy_ns);
    json_.Int("network_ns", step.network_ns);
    json_.Int("late_ns", step.late_ns);
    json_.Int("idle_ns", step.idle_ns);
    json_.Int("h2d_bytes", step.h2d_bytes);
    json_.Int("d2h_bytes", step.d2h_bytes);
    json_.Int("sent_bytes", step.sent_bytes);
    json_.Int("received_bytes", step.received_bytes);
    json_.Int("device_peak_bytes", step.device_peak_bytes);
    json_.Int("moves", step.moves);
    json_.Int("move_ns", step.move_ns);
    json_.Key("loss");
    if (step.loss.has_value()) {
      json_.Double(*step.loss);
    } else {
      json_.Null();
    }
    json_.EndObject();
  }

  void WriteResults() {
    const std::vector<ResultRecord>& results = view_.results;
    using R = ResultRecord;
    json_.Key("results");
    json_.BeginObject();
    Ints("step", results, [](const R& r) { return r.step; });
    Ints("end_ns", results, [](const R& r) { return r.end_ns; });
    Ints("duration_ns", results, [](const R& r) { return r.duration_ns; });
    Ints("stall_ns", results, [](const R& r) { return r.stall_ns; });
    List("loss", results, [&](const R& r) { json_.Double(r.loss); });
    Ints("h2d_bytes", results, [](const R& r) { return r.h2d_bytes; });
    Ints("d2h_bytes", results, [](const R& r) { return r.d2h_bytes; });
    Ints("sent_bytes", results,
         [](const R& r) { return r.network_sent_bytes; });
    Ints("received_bytes", results,
         [](const R& r) { return r.network_received_bytes; });
    Ints("network_wait_ns", results,
         [](const R& r) { return r.network_wait_ns; });
    json_.EndObject();
  }

  void WriteSpans() {
    const std::vector<TraceView::Span>& spans = view_.spans;
    using S = TraceView::Span;
    json_.Key("spans");
    json_.BeginObject();
    Ints("stream", spans, [](const S& s) { return s.stream; });
    Ints("kind", spans, [](const S& s) { return s.kind; });
    Ints("step", spans, [](const S& s) { return s.step; });
    Ints("moment", spans, [](const S& s) { return s.moment; });
    Ints("chunk", spans, [](const S& s) { return s.chunk; });
    Ints("start", spans, [](const S& s) { return s.start_ns; });
    Ints("end", spans, [](const S& s) { return s.end_ns; });
    Ints("label", spans, [](const S& s) { return s.label; });
    Ints("bytes", spans, [](const S& s) { return s.bytes; });
    Ints("because", spans, [](const S& s) { return s.because; });
    Ints("cause", spans, [](const S& s) { return s.cause; });
    Ints("note", spans, [](const S& s) { return s.note; });
    Ints("late_rank", spans, [](const S& s) { return s.late_rank; });
    json_.EndObject();
  }

  void WriteByCategory(const std::vector<TraceView::MemoryPoint>& points) {
    json_.Key("bytes");
    json_.BeginArray();
    for (size_t c = 0; c < view_.categories.size(); ++c) {
      json_.BeginArray();
      for (const TraceView::MemoryPoint& point : points) {
        json_.Int(point.bytes[c]);
      }
      json_.EndArray();
    }
    json_.EndArray();
  }

  void WriteMemory() {
    using M = TraceView::MemoryPoint;
    json_.Key("memory");
    json_.BeginObject();
    Ints("time", view_.memory, [](const M& m) { return m.time_ns; });
    Ints("op", view_.memory, [](const M& m) { return m.moment; });
    Ints("step", view_.memory, [](const M& m) { return m.step; });
    WriteByCategory(view_.memory);
    json_.EndObject();
    json_.Key("host_memory");
    json_.BeginObject();
    Ints("time", view_.host_memory, [](const M& m) { return m.time_ns; });
    WriteByCategory(view_.host_memory);
    json_.EndObject();
    using P = TraceView::PredictedPoint;
    json_.Key("predicted_memory");
    json_.BeginObject();
    Ints("time", view_.predicted_memory, [](const P& p) { return p.time_ns; });
    Ints("bytes", view_.predicted_memory, [](const P& p) { return p.bytes; });
    json_.EndObject();
    WriteBudgets();
    json_.Key("peak");
    if (!view_.peak.has_value()) return json_.Null();
    json_.BeginObject();
    json_.Int("time", view_.peak->time_ns);
    json_.Int("bytes", view_.peak->bytes);
    json_.Int("step", view_.peak->step);
    json_.Int("moment", view_.peak->moment);
    json_.String("op", view_.peak->op);
    Ints("by_category", view_.peak->by_category);
    json_.EndObject();
  }

  void WriteBudgets() {
    json_.Key("budgets");
    json_.BeginObject();
    using B = BudgetRecord;
    Ints("time", view_.budgets, [](const B& b) { return b.time_ns; });
    Ints("step", view_.budgets, [](const B& b) { return b.step; });
    Budgets("from", view_.budgets, [](const B& b) { return b.from_bytes; });
    Budgets("to", view_.budgets, [](const B& b) { return b.to_bytes; });
    Texts("asked_by", view_.budgets, [](const B& b) {
      return trace_names::kAskers[static_cast<int>(b.asker)];
    });
    json_.EndObject();
  }

  void WriteResidency() {
    using R = TraceView::Residency;
    json_.Key("residency");
    json_.BeginObject();
    Ints("chunk", view_.residency, [](const R& r) { return r.chunk; });
    Ints("start", view_.residency, [](const R& r) { return r.start_ns; });
    Ints("end", view_.residency, [](const R& r) { return r.end_ns; });
    Ints("state", view_.residency,
         [](const R& r) { return static_cast<int64_t>(r.state); });
    json_.EndObject();
    json_.Key("states");
    json_.BeginArray();
    for (int i = 0; i < kNumResidencyStates; ++i) {
      const auto state = static_cast<TraceView::ResidencyState>(i);
      json_.BeginObject();
      json_.String("name", ResidencyStateName(state));
      json_.String("tier", OnDevice(state) ? "device" : "host");
      json_.EndObject();
    }
    json_.EndArray();
  }

  void WriteOperators() {
    using R = TraceView::OperatorRow;
    const std::vector<R>& rows = view_.operators;
    const auto op = [&](const R& r) -> const OpRecord& {
      return view_.programs[r.program].ops[r.moment];
    };
    json_.Key("operators");
    json_.BeginObject();
    Texts("name", rows,
          [&](const R& r) { return absl::string_view(op(r).name); });
    Ints("program", rows, [](const R& r) { return r.program; });
    Ints("moment", rows, [](const R& r) { return r.moment; });
    Texts("phase", rows, [&](const R& r) { return PhaseName(op(r).phase); });
    Texts("kind", rows, [&](const R& r) { return OpKindName(op(r).kind); });
    Texts("shapes", rows,
          [&](const R& r) { return absl::string_view(op(r).shapes); });
    Ints("count", rows, [](const R& r) { return r.count; });
    Ints("total_ns", rows, [](const R& r) { return r.total_ns; });
    Ints("mean_ns", rows, [](const R& r) { return r.mean_ns(); });
    Ints("max_ns", rows, [](const R& r) { return r.max_ns; });
    Ints("peak_bytes", rows, [](const R& r) { return r.peak_bytes; });
    Ints("non_model_peak_bytes", rows,
         [&](const R& r) { return op(r).non_model_peak_bytes; });
    Ints("wait_ns", rows, [](const R& r) { return r.wait_ns; });
    Ints("flops", rows, [&](const R& r) { return op(r).flops; });
    json_.EndObject();
  }

  void WriteModules() {
    using R = TraceView::ModuleRow;
    using Text = absl::string_view;
    const std::vector<R>& rows = view_.modules;
    json_.Key("modules");
    json_.BeginObject();
    Texts("pattern", rows, [](const R& r) { return Text(r.pattern); });
    Texts("module", rows, [](const R& r) { return Text(r.module); });
    Texts("kind", rows, [](const R& r) { return Text(r.kind); });
    Texts("phase", rows, [](const R& r) { return Text(r.phase); });
    Ints("operators", rows, [](const R& r) { return r.operators; });
    Ints("count", rows, [](const R& r) { return r.count; });
    Ints("total_ns", rows, [](const R& r) { return r.total_ns; });
    Ints("max_ns", rows, [](const R& r) { return r.max_ns; });
    List("share", rows, [&](const R& r) { json_.Double(r.share); });
    List("flops", rows, [&](const R& r) { json_.Double(r.flops); });
    List("flops_per_s", rows,
         [&](const R& r) { json_.Double(r.flops_per_s()); });
    Ints("peak_bytes", rows, [](const R& r) { return r.peak_bytes; });
    Ints("wait_ns", rows, [](const R& r) { return r.wait_ns; });
    json_.EndObject();
  }

  void WriteChunks() {
    using R = TraceView::ChunkRow;
    const std::vector<R>& rows = view_.chunks;
    json_.Key("chunks");
    json_.BeginObject();
    Ints("chunk", rows, [](const R& r) { return r.chunk; });
    Ints("payload_bytes", rows, [](const R& r) { return r.payload_bytes; });
    Ints("optimizer_bytes", rows, [](const R& r) { return r.optimizer_bytes; });
    Texts("side", rows, [](const R& r) {
      return absl::string_view(r.on_device_side ? "device" : "host");
    });
    Texts("parameters", rows,
          [](const R& r) { return absl::string_view(r.parameters); });
    Ints("fetches", rows, [](const R& r) { return r.fetches; });
    Ints("fetched_bytes", rows, [](const R& r) { return r.fetched_bytes; });
    Ints("copied_back_bytes", rows,
         [](const R& r) { return r.copied_back_bytes; });
    List("resident_share", rows,
         [&](const R& r) { json_.Double(r.resident_share); });
    Ints("wait_ns", rows, [](const R& r) { return r.wait_ns; });
    json_.EndObject();
  }

  void WriteBlocks() {
    using R = TraceView::BlockRow;
    const std::vector<R>& rows = view_.blocks;
    json_.Key("blocks");
    json_.BeginObject();
    Ints("block", rows, [](const R& r) { return r.block; });
    Texts("name", rows, [](const R& r) { return absl::string_view(r.name); });
    Texts("choice", rows,
          [](const R& r) { return absl::string_view(r.choice); });
    Ints("forward", rows, [](const R& r) { return r.forward; });
    Ints("backward", rows, [](const R& r) { return r.backward; });
    Ints("device_bytes", rows, [](const R& r) { return r.device_bytes; });
    Ints("host_bytes", rows, [](const R& r) { return r.host_bytes; });
    Ints("spared_bytes", rows, [](const R& r) { return r.spared_bytes; });
    Ints("again_ns", rows, [](const R& r) { return r.again_ns; });
    Ints("copied_back_bytes", rows,
         [](const R& r) { return r.copied_back_bytes; });
    Ints("fetched_bytes", rows, [](const R& r) { return r.fetched_bytes; });
    Ints("wait_ns", rows, [](const R& r) { return r.wait_ns; });
    Ints("chunk", rows, [](const R& r) { return r.chunk; });
    json_.EndObject();
  }

  void WriteWaits() {
    using R = TraceView::WaitRow;
    const std::vector<R>& rows = view_.waits;
    json_.Key("waits");
    json_.BeginObject();
    Texts("cause", rows, [](const R& r) { return absl::string_view(r.cause); });
    Texts("remedy", rows,
          [](const R& r) { return absl::string_view(r.remedy); });
    Ints("stream", rows, [](const R& r) { return r.stream; });
    Ints("count", rows, [](const R& r) { return r.count; });
    Ints("total_ns", rows, [](const R& r) { return r.total_ns; });
    Ints("max_ns", rows, [](const R& r) { return r.max_ns; });
    Ints("longest_span", rows, [](const R& r) { return r.longest_span; });
    json_.EndObject();
  }

  void WriteSummary() {
    json_.Key("summary");
    if (!view_.summary.has_value()) return json_.Null();
    const TraceView::Summary& summary = *view_.summary;
    json_.BeginObject();
    json_.Int("steps", summary.steps);
    json_.Int("median_step", summary.median_step);
    json_.Int("step_ns", summary.step_ns);
    json_.Int("compute_ns", summary.compute_ns);
    json_.Int("copy_ns", summary.copy_ns);
    json_.Int("optimizer_ns", summary.optimizer_ns);
    json_.Int("network_ns", summary.network_ns);
    json_.Int("late_ns", summary.late_ns);
    json_.Int("idle_ns", summary.idle_ns);
    json_.Int("h2d_bytes", summary.h2d_bytes);
    json_.Int("d2h_bytes", summary.d2h_bytes);
    json_.Int("sent_bytes", summary.sent_bytes);
    json_.Int("received_bytes", summary.received_bytes);
    json_.Int("least_h2d_bytes", summary.least_h2d_bytes);
    json_.Int("predicted_step_ns", summary.predicted_step_ns);
    json_.Int("predicted_peak_bytes", summary.predicted_peak_bytes);
    json_.Int("device_peak_bytes", summary.device_peak_bytes);
    json_.Int("host_peak_bytes", summary.host_peak_bytes);
    Budget("device_budget_bytes", summary.device_budget_bytes);
    OptionalBool("planned_addresses", summary.planned_addresses);
    OptionalInt("predicted_moves", summary.predicted_moves);
    OptionalInt("predicted_moved_bytes", summary.predicted_moved_bytes);
    json_.Int("moves", summary.moves);
    json_.Int("move_ns", summary.move_ns);
    json_.Int("kept_blocks", summary.kept_blocks);
    json_.Int("kept_bytes", summary.kept_bytes);
    json_.Int("host_blocks", summary.host_blocks);
    json_.Int("host_bytes", summary.host_bytes);
    json_.Int("remade_blocks", summary.remade_blocks);
    json_.Int("spared_bytes", summary.spared_bytes);
    json_.Double("tokens_per_second", summary.tokens_per_second);
    json_.Double("flops", summary.flops);
    Strings("advice", summary.advice);
    json_.EndObject();
  }

  void WriteRefusal() {
    json_.Key("refusal");
    if (!view_.refusal.has_value()) return json_.Null();
    const RefusalRecord& refusal = *view_.refusal;
    json_.BeginObject();
    json_.String("message", refusal.message);
    json_.String("tier", refusal.tier);
    json_.String("op", refusal.op);
    json_.Int("peak_bytes", refusal.peak_bytes);
    json_.Int("resident_bytes", refusal.resident_bytes);
    Budget("smallest_device_budget_bytes",
           refusal.smallest_device_budget_bytes);
    Budget("smallest_host_budget_bytes", refusal.smallest_host_budget_bytes);
    json_.EndObject();
  }

  const TraceView& view_;
  JsonWriter& json_;
};

void WriteComparison(const Comparison& comparison, JsonWriter& json) {
  json.BeginObject();
  json.Key("rows");
  json.BeginArray();
  for (const Comparison::Row& row : comparison.rows) {
    json.BeginObject();
    json.String("name", row.name);
    json.String("unit", row.unit);
    json.Double("a", row.a);
    json.Double("b", row.b);
    json.EndObject();
  }
  json.EndArray();
  json.Key("notes");
  json.BeginArray();
  for (const std::string& note : comparison.notes) json.String(note);
  json.EndArray();
  json.EndObject();
}

void WriteView(const TraceView& view, JsonWriter& json) {
  Writer(view, json).Write();
}

}  // namespace

std::string PageJson(const TraceView& view) {
  return RanksPageJson({&view, 1});
}

std::string RanksPageJson(absl::Span<const TraceView> ranks) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Key("views");
  json.BeginArray();
  for (const TraceView& view : ranks) WriteView(view, json);
  json.EndArray();
  if (ranks.size() > 1) json.Bool("ranks", true);
  json.EndObject();
  return text;
}

std::string PageJson(const TraceView& a, const TraceView& b) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Key("views");
  json.BeginArray();
  WriteView(a, json);
  WriteView(b, json);
  json.EndArray();
  json.Key("comparison");
  WriteComparison(CompareViews(a, b), json);
  json.EndObject();
  return text;
}

}  // namespace castor
