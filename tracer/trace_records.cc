// The large records of a trace: operators and chunks of a step, and plans.
#include "tracer/trace_records.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracer/trace_names.h"

namespace castor {
namespace {

// Ascending chunk numbers below `end`.
std::vector<int64_t> ChunkIds(JsonFields& fields, absl::string_view key,
                              int64_t end) {
  std::vector<int64_t> ids;
  for (const Json& item : fields.List(key)) {
    int64_t id = 0;
    const int64_t least = ids.empty() ? 0 : ids.back() + 1;
    if (!JsonFields::AsInt(item, &id) || id < least || id >= end) {
      fields.Fail(
          key, absl::StrCat("must hold ascending chunk numbers below ", end));
      return {};
    }
    ids.push_back(id);
  }
  return ids;
}

OpRecord ReadOp(const Json& json, size_t moment, const StepTrace& trace,
                std::string* error) {
  JsonFields fields(json, absl::StrCat("ops[", moment, "]"), error);
  OpRecord op;
  op.name = fields.String("name");
  op.kind = fields.OneOf<OpKind>("kind", trace_names::kKinds);
  op.phase = fields.OneOf<Phase>("phase", trace_names::kPhases);
  op.shapes = fields.String("shapes");
  const int64_t num_chunks = static_cast<int64_t>(trace.chunks.size());
  const std::vector<int64_t> chunks = ChunkIds(fields, "chunks", num_chunks);
  const std::vector<int64_t> writes = ChunkIds(fields, "writes", num_chunks);
  size_t next_write = 0;
  for (const int64_t id : chunks) {
    const bool writes_it =
        next_write < writes.size() && writes[next_write] == id;
    if (writes_it) ++next_write;
    op.chunks.push_back({ChunkId(id), writes_it});
  }
  if (next_write < writes.size()) {
    fields.Fail("writes", "must be among its chunks");
  }
  op.non_model_peak_bytes = fields.Int("non_model_peak_bytes");
  op.workspace_bytes =
      fields.Int("workspace_bytes", 0, op.non_model_peak_bytes);
  op.duration_ns = fields.Int("duration_ns");
  op.host_duration_ns = fields.Int("host_duration_ns");
  if (fields.Has("reduced_bytes"))
    op.reduced_bytes = fields.Int("reduced_bytes");
  if (fields.Has("flops")) op.flops = fields.Int("flops");
  fields.Done();
  if (fields.ok() && op.kind != OpKind::kCompute) {
    if (!trace.training) {
      fields.Fail("kind", "must be compute in a trace without training");
    } else if (op.chunks.size() != 1) {
      fields.Fail("chunks", "must hold one chunk for this kind");
    } else if (trace.chunks[op.chunks[0].chunk.value].optimizer_bytes == 0) {
      fields.Fail("chunks", "names a chunk without optimizer states");
    }
  }
  return op;
}

BlockRecord ReadBlock(const Json& json, size_t index, int64_t moments,
                      std::string* error) {
  JsonFields fields(json, absl::StrCat("blocks[", index, "]"), error);
  BlockRecord block;
  block.block = fields.Int("block", 0, moments);
  block.kept = fields.Bool("kept");
  block.forward = Moment(fields.Int("forward", 0, moments));
  block.backward = Moment(fields.Int("backward", 0, moments));
  block.kept_bytes =
      fields.Int("kept_bytes", -kMaxTraceNumber, kMaxTraceNumber);
  block.remake_bytes =
      fields.Int("remake_bytes", -kMaxTraceNumber, kMaxTraceNumber);
  for (const Json& item : fields.List("kept_peak_bytes")) {
    int64_t value = 0;
    if (!JsonFields::AsInt(item, &value) || value < 0 ||
        value > kMaxTraceNumber) {
      fields.Fail("kept_peak_bytes", "must hold integers from 0 to 2^60");
      break;
    }
    block.kept_peak_bytes.push_back(value);
  }
  if (fields.Has("offload_bytes")) {
    block.offload_pieces = fields.Int("offload_pieces", 1, kMaxTraceItems);
    block.offload_bytes = fields.Int("offload_bytes", 1);
    block.offloaded = fields.Bool("offloaded");
  }
  fields.Done();
  return block;
}

std::vector<int64_t> Amounts(JsonFields& fields, absl::string_view key,
                             size_t size) {
  std::vector<int64_t> amounts;
  for (const Json& item : fields.List(key)) {
    int64_t value = 0;
    if (!JsonFields::AsInt(item, &value) || value < 0 ||
        value > kMaxTraceNumber) {
      break;
    }
    amounts.push_back(value);
  }
  if (amounts.size() != size) {
    fields.Fail(key, absl::StrCat("must hold ", size,
                                  " integers from 0 to 2^60, one an operator"));
  }
  return amounts;
}

std::vector<ChunkId> Chunks(JsonFields& fields, absl::string_view key,
                            int64_t end) {
  std::vector<ChunkId> chunks;
  for (const int64_t id : ChunkIds(fields, key, end)) {
    chunks.push_back(ChunkId(id));
  }
  return chunks;
}

std::vector<ActionRecord> Actions(JsonFields& fields, const StepTrace& trace) {
  const int64_t moments = static_cast<int64_t>(trace.ops.size());
  const int64_t chunks = static_cast<int64_t>(trace.chunks.size());
  std::vector<ActionRecord> actions;
  int64_t last = 0;
  for (const Json& item : fields.List("actions")) {
    int64_t values[4];
    bool good = item.is_array() && item.size() == 4;
    for (int i = 0; good && i < 4; ++i) {
      good = JsonFields::AsInt(item[i], &values[i]);
    }
    good = good && values[0] >= last && values[0] <= moments &&
           values[1] >= 0 && values[1] < kNumActionKinds && values[2] >= 0 &&
           values[2] < chunks && values[3] >= -1 && values[3] < moments;
    if (!good) {
      fields.Fail(
          "actions",
          absl::StrCat("must hold lists of moment (ascending, at most ",
                       moments, "), kind (0 to ", kNumActionKinds - 1,
                       "), chunk (below ", chunks, ") and moment (-1: none)"));
      return {};
    }
    last = values[0];
    actions.push_back({Moment(values[0]), static_cast<ActionKind>(values[1]),
                       ChunkId(values[2]), Moment(values[3])});
  }
  return actions;
}

}  // namespace

void ReadStepTrace(JsonFields& fields, StepTrace* trace, std::string* error) {
  trace->signature = fields.String("signature");
  trace->training = fields.Bool("training");
  trace->micro_batches = fields.Int("micro_batches", 1);
  trace->measured = fields.Bool("measured");
  trace->global_norm = fields.Bool("global_norm");
  const Json& chunks = fields.List("chunks");
  const Json& ops = fields.List("ops");
  const Json no_blocks = Json::array();
  const Json& blocks = fields.Has("blocks") ? fields.List("blocks") : no_blocks;
  fields.Done();
  // Sums of any number of them stay within int64_t.
  int64_t total_bytes = 0;
  for (size_t i = 0; i < chunks.size() && fields.ok(); ++i) {
    JsonFields item(chunks[i], absl::StrCat("chunks[", i, "]"), error);
    ChunkInfo& chunk = trace->chunks.emplace_back();
    chunk.payload_bytes = item.Int("payload_bytes");
    chunk.optimizer_bytes = item.Int("optimizer_bytes");
    chunk.parameters = item.Names("parameters");
    if (item.Has("shard_bytes")) {
      chunk.shard_bytes = item.Int("shard_bytes", 1, chunk.payload_bytes);
    }
    if (item.Has("sum_bytes")) {
      chunk.sum_bytes = item.Int("sum_bytes", 1, chunk.optimizer_bytes);
    }
    if (item.Has("block")) {
      chunk.block = item.Int("block");
      chunk.pieces = item.Int("pieces", 1, kMaxTraceItems);
    }
    item.Done();
    total_bytes += chunk.payload_bytes + chunk.optimizer_bytes;
    if (total_bytes > kMaxTraceNumber) {
      item.Fail("", "makes the model larger than 2^60 bytes");
    }
  }
  int64_t total_ns = 0;
  for (size_t i = 0; i < ops.size() && fields.ok(); ++i) {
    trace->ops.push_back(ReadOp(ops[i], i, *trace, error));
    total_ns += trace->ops.back().duration_ns;
    total_ns += trace->ops.back().host_duration_ns;
    if (total_ns > kMaxTraceNumber) {
      fields.Fail("ops", "take longer than 2^60 ns together");
    }
  }
  const int64_t moments = static_cast<int64_t>(ops.size());
  for (size_t i = 0; i < blocks.size() && fields.ok(); ++i) {
    trace->blocks.push_back(ReadBlock(blocks[i], i, moments, error));
  }
}

void ReadPlan(JsonFields& fields, const std::vector<StepTrace>& traces,
              PlanRecord* plan, std::string* error) {
  plan->trace = fields.Int("trace", 0, static_cast<int64_t>(traces.size()) - 1);
  plan->policy = fields.String("policy");
  plan->warmup = fields.Bool("warmup");
  plan->refused = fields.Bool("refused");
  plan->device_budget_bytes = fields.Budget("device_budget_bytes");
  plan->host_budget_bytes = fields.Budget("host_budget_bytes");
  plan->device_reserved_bytes = fields.Int("device_reserved_bytes");
  plan->host_reserved_bytes = fields.Int("host_reserved_bytes");
  // A copy at less than a byte per second is a mistake, and its time overflows.
  plan->h2d_bytes_per_s = fields.Double("h2d_bytes_per_s", 1);
  plan->d2h_bytes_per_s = fields.Double("d2h_bytes_per_s", 1);
  plan->latency_ns = fields.Int("latency_ns");
  plan->prefetch = fields.Bool("prefetch");
  plan->gpu_margin_mem_ratio = fields.Double("gpu_margin_mem_ratio", 0);
  plan->fixed_sides = fields.Bool("fixed_sides");
  if (fields.Has("world_size")) {
    plan->world_size = fields.Int("world_size", 2, kMaxTraceRanks);
    plan->network_bytes_per_s = fields.Double("network_bytes_per_s", 1);
  }
  if (fields.Has("speculation_host_bytes")) {
    plan->speculation_host_bytes = fields.Budget("speculation_host_bytes");
    plan->speculation_miss_rate = fields.Double("speculation_miss_rate", 0);
  }
  if (fields.Has("planned_addresses")) {
    plan->planned_addresses = fields.Bool("planned_addresses");
  }
  if (!fields.ok()) return;
  const StepTrace& trace = traces[plan->trace];
  const int64_t chunks = static_cast<int64_t>(trace.chunks.size());
  plan->device_side = Chunks(fields, "device_side", chunks);
  plan->initial = Chunks(fields, "initial", chunks);
  plan->initial_dirty = Chunks(fields, "initial_dirty", chunks);
  plan->actions = Actions(fields, trace);
  const Json& predicted = fields.Object("predicted");
  fields.Done();
  if (!fields.ok()) return;
  JsonFields inner(predicted, "predicted", error);
  Prediction& prediction = plan->predicted;
  prediction.step_ns = inner.Int("step_ns");
  prediction.stall_ns = inner.Int("stall_ns");
  prediction.h2d_bytes = inner.Int("h2d_bytes");
  prediction.d2h_bytes = inner.Int("d2h_bytes");
  prediction.device_peak_bytes = inner.Int("device_peak_bytes");
  prediction.host_bytes = inner.Int("host_bytes");
  prediction.least_h2d_bytes = inner.Int("least_h2d_bytes");
  if (inner.Has("moves")) {
    prediction.moves = inner.Int("moves");
    prediction.moved_bytes = inner.Int("moved_bytes");
  }
  const size_t ops = plan->refused ? 0 : trace.ops.size();
  prediction.op_start_ns = Amounts(inner, "op_start_ns", ops);
  prediction.device_bytes = Amounts(inner, "device_bytes", ops);
  inner.Done();
}

}  // namespace castor
