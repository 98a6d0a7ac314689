#include "runtime/backend/dry_backend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "kernels/exact_sum/exact_sum.h"
#include "memory/exec/chunk_store.h"
#include "memory/plan/plan.h"

namespace castor {
namespace {

std::string ShapesOf(const BackendOp& op) {
  std::string text;
  for (const Shape& shape : op.operand_shapes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", shape.ToString());
  }
  absl::StrAppend(&text, " ->");
  for (size_t i = 0; i < op.output_shapes.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " " : ", ", op.output_shapes[i].ToString());
  }
  return text;
}

uint64_t Mix(uint64_t hash, const std::string& text) {
  return MixKey(hash, HashName(text.data(), text.size()));
}

std::string SignatureOf(const StepTrace& trace) {
  uint64_t hash = trace.training ? 1 : 0;
  for (const OpRecord& op : trace.ops) {
    hash = Mix(hash, op.name);
    hash = MixKey(hash, static_cast<uint64_t>(op.non_model_peak_bytes));
    for (const ChunkUse& use : op.chunks) {
      hash = MixKey(hash, static_cast<uint64_t>(use.chunk.value * 2 +
                                                (use.writes ? 1 : 0)));
    }
  }
  for (const ChunkInfo& chunk : trace.chunks) {
    hash = MixKey(hash, static_cast<uint64_t>(chunk.payload_bytes));
    hash = MixKey(hash, static_cast<uint64_t>(chunk.optimizer_bytes));
    if (chunk.shard_bytes > 0) {
      hash = MixKey(hash, static_cast<uint64_t>(chunk.shard_bytes));
    }
  }
  for (const OpRecord& op : trace.ops) {
    if (op.reduced_bytes > 0) {
      hash = MixKey(hash, static_cast<uint64_t>(op.reduced_bytes));
    }
  }
  return absl::StrFormat("%s-%d-%016x", trace.training ? "train" : "eval",
                         trace.micro_batches, hash);
}

}  // namespace

int64_t Roofline::Duration(double flops, double bytes) const {
  constexpr double kLaunchNs = 2000;
  return static_cast<int64_t>(
      kLaunchNs + 1e9 * std::max(flops / flops_per_s, bytes / bytes_per_s));
}

absl::StatusOr<int64_t> DryBackend::Allocate(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxBytes - live_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "activations of more than ", FormatBytes(kMaxBytes),
        " are more than any machine holds: lower "
        "train_micro_batch_size_per_gpu, data.sequence_length or the model's "
        "sizes"));
  }
  // The arena gives a block of no bytes a whole unit too.
  const int64_t rounded =
      std::max<int64_t>(kBlockAlignment, RoundUp(bytes, kBlockAlignment));
  live_bytes_ += rounded;
  bytes_.push_back(rounded);
  return static_cast<int64_t>(bytes_.size()) - 1;
}

double DryBackend::TouchedBytes(const ChunkLayout& layout) const {
  double bytes = 0;
  for (const OpRecord& op : ops_) {
    for (const ChunkUse& use : op.chunks) {
      bytes += static_cast<double>(layout.payload_bytes(use.chunk));
    }
  }
  return bytes;
}

void DryBackend::Release(int64_t storage_id) {
  live_bytes_ -= bytes_[storage_id];
}

absl::StatusOr<absl::InlinedVector<int64_t, 4>> DryBackend::Run(BackendOp op) {
  absl::InlinedVector<int64_t, 4> storages;
  for (const OutputRequest& output : op.outputs) {
    CASTOR_ASSIGN_OR_RETURN(const int64_t storage, Allocate(output.bytes));
    storages.push_back(storage);
  }
  OpRecord record;
  record.shapes = ShapesOf(op);
  record.name = std::move(op.name);
  record.phase = op.phase;
  record.chunks.assign(op.chunks.begin(), op.chunks.end());
  record.workspace_bytes = RoundUp(op.workspace_bytes, kBlockAlignment);
  record.non_model_peak_bytes = live_bytes_ + record.workspace_bytes;
  record.duration_ns = roofline_.Duration(op.flops, op.bytes);
  ops_.push_back(std::move(record));
  return storages;
}

absl::StatusOr<int64_t> DryBackend::Upload(std::string name, HostData data) {
  CASTOR_ASSIGN_OR_RETURN(const int64_t storage, Allocate(data.bytes()));
  OpRecord record;
  record.shapes = absl::StrCat("-> [", data.elements(), "]");
  record.name = std::move(name);
  record.non_model_peak_bytes = live_bytes_;
  record.duration_ns = roofline_.Duration(0, static_cast<double>(data.bytes()));
  ops_.push_back(std::move(record));
  return storage;
}

void DryBackend::RecordChunkOp(std::string name, OpKind kind, Phase phase,
                               ChunkId chunk) {
  OpRecord record;
  record.name = std::move(name);
  record.kind = kind;
  record.phase = phase;
  record.chunks = {{chunk, /*writes=*/true}};
  record.non_model_peak_bytes = live_bytes_;
  ops_.push_back(std::move(record));
}

absl::StatusOr<int64_t> DryBackend::Hold(std::string, int64_t bytes) {
  return Allocate(bytes);
}

absl::Status DryBackend::Reduce(ChunkReduce op) {
  RecordChunkOp(std::move(op.name), OpKind::kReduce, Phase::kBackward,
                op.chunk);
  return absl::OkStatus();
}

absl::Status DryBackend::Update(ChunkUpdate op) {
  RecordChunkOp(std::move(op.name), OpKind::kUpdate, Phase::kOptimizer,
                op.chunk);
  return absl::OkStatus();
}

StepTrace DryBackend::Finish(const ChunkLayout* layout, bool accumulate,
                             bool training, int64_t micro_batches) {
  StepTrace trace;
  trace.training = training;
  trace.micro_batches = micro_batches;
  trace.ops = std::move(ops_);
  ops_.clear();
  if (layout != nullptr) {
    for (int64_t i = 0; i < layout->num_chunks(); ++i) {
      const ChunkSpec& chunk = layout->chunk(ChunkId(i));
      ChunkInfo info;
      info.payload_bytes = layout->payload_bytes(ChunkId(i));
      info.optimizer_bytes = layout->state_bytes(ChunkId(i), accumulate);
      if (layout->world_size > 1) {
        info.shard_bytes = layout->shard_bytes(ChunkId(i));
      }
      for (ParamId id : chunk.parameters) {
        info.parameters.push_back(layout->parameter(id).name);
      }
      trace.chunks.push_back(std::move(info));
    }
  }
  for (OpRecord& op : trace.ops) {
    if (op.kind == OpKind::kCompute) continue;
    // reduce reads the gradient; update reads and writes everything, once in
    // each of its phases.
    const ChunkInfo& chunk = trace.chunks[op.chunks[0].chunk.value];
    const bool two_phases = layout->states.sums > 0;
    const double bytes = op.kind == OpKind::kReduce
                             ? static_cast<double>(chunk.payload_bytes)
                             : (two_phases ? 4.0 : 2.0) *
                                   static_cast<double>(chunk.home_bytes() +
                                                       chunk.optimizer_bytes);
    if (op.kind == OpKind::kUpdate && two_phases && layout->world_size > 1) {
      op.reduced_bytes = static_cast<int64_t>(chunk.parameters.size()) *
                         layout->states.sums *
                         static_cast<int64_t>(sizeof(kernels::ExactSum));
    }
    op.duration_ns = roofline_.Duration(0, bytes);
    op.host_duration_ns = op.duration_ns;
  }
  trace.signature = SignatureOf(trace);
  return trace;
}

}  // namespace castor
