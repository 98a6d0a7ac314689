#include "runtime/backend/dry_backend.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "memory/plan/plan.h"
#include "tracer/step_signature.h"

namespace castor {
namespace {

// No trace holds more, nor does any operator.
constexpr double kMostFlops = 1e18;

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

}  // namespace

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
  storages_.push_back(
      {.bytes = rounded, .birth = Moment(operators()), .last = Moment()});
  return static_cast<int64_t>(storages_.size()) - 1;
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
  TensorRecord& storage = storages_[storage_id];
  live_bytes_ -= storage.bytes;
  storage.last = Moment(operators() - 1);
  made_.Remove(storage_id);
}

absl::StatusOr<absl::InlinedVector<int64_t, 4>> DryBackend::Run(BackendOp op) {
  absl::InlinedVector<int64_t, 4> storages;
  for (const OutputRequest& output : op.outputs) {
    CASTOR_ASSIGN_OR_RETURN(const int64_t storage, Allocate(output.bytes));
    storages.push_back(storage);
    made_.Add(storage);
  }
  OpRecord record;
  record.shapes = ShapesOf(op);
  record.name = std::move(op.name);
  record.phase = op.phase;
  record.chunks.assign(op.chunks.begin(), op.chunks.end());
  record.workspace_bytes = RoundUp(op.workspace_bytes, kBlockAlignment);
  record.non_model_peak_bytes = live_bytes_ + record.workspace_bytes;
  record.duration_ns = roofline_.Duration(op.cost, op.flops, op.bytes);
  record.flops = std::llround(std::min(op.flops, kMostFlops));
  ops_.push_back(std::move(record));
  EndOperator();
  return storages;
}

absl::StatusOr<int64_t> DryBackend::Upload(std::string name, HostData data) {
  CASTOR_ASSIGN_OR_RETURN(const int64_t storage, Allocate(data.bytes()));
  made_.Add(storage);
  OpRecord record;
  record.shapes = absl::StrCat("-> [", data.elements(), "]");
  record.name = std::move(name);
  record.non_model_peak_bytes = live_bytes_;
  record.duration_ns = roofline_.Duration(CostKind::kElements, 0,
                                          static_cast<double>(data.bytes()));
  ops_.push_back(std::move(record));
  EndOperator();
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
  holds_ = true;
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

void DryBackend::EndOperator() {
  live_bytes_ += read_bytes_;
  read_bytes_ = 0;
}

absl::Status DryBackend::AtBlock(int64_t block, BlockPoint point,
                                 int64_t output) {
  marks_[block][static_cast<int>(point)] = {operators(), live_bytes_};
  switch (point) {
    case BlockPoint::kBackward:
      RecordBlock(block);
      break;
    case BlockPoint::kKept:
      made_.Begin();
      break;
    case BlockPoint::kKeptEnd:
      RecordKeptBlock(block, output);
      break;
    case BlockPoint::kKeptBackward:
      if (!Offloads(block)) break;
      activation_uses_.push_back({operators(), block, /*makes=*/false});
      for (const BlockRecord& record : blocks_) {
        if (record.block == block) read_bytes_ = record.offload_bytes;
      }
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

void DryBackend::RecordKeptBlock(int64_t number, int64_t output) {
  const Mark& forward = marks_[number][static_cast<int>(BlockPoint::kKept)];
  const std::vector<int64_t> storages = made_.End(output);
  if (operators() == forward.moment) return;
  BlockRecord block = {.block = number,
                       .kept = true,
                       .forward = Moment(forward.moment),
                       .offload_pieces = static_cast<int64_t>(storages.size())};
  for (const int64_t storage : storages) {
    block.offload_bytes += storages_[storage].bytes;
    storages_[storage].block = number;
  }
  if (Offloads(number)) {
    live_bytes_ -= block.offload_bytes;
    activation_uses_.push_back({operators(), number, /*makes=*/true});
  }
  blocks_.push_back(std::move(block));
}

// A chunk for each offloaded block, by their numbers.
void DryBackend::AddActivations(StepTrace* trace) const {
  std::map<int64_t, ChunkId> id_of;
  for (const ActivationUse& use : activation_uses_) id_of[use.block] = {};
  for (auto& [number, id] : id_of) {
    id = ChunkId(static_cast<int64_t>(trace->chunks.size()));
    const auto record = std::find_if(
        blocks_.begin(), blocks_.end(),
        [block = number](const BlockRecord& b) { return b.block == block; });
    ChunkInfo& chunk = trace->chunks.emplace_back();
    chunk.payload_bytes = record->offload_bytes;
    chunk.block = number;
    chunk.pieces = record->offload_pieces;
    chunk.parameters = {absl::StrCat("activations of block ", number)};
  }
  for (const ActivationUse& use : activation_uses_) {
    std::vector<ChunkUse>& chunks = trace->ops[use.moment].chunks;
    const ChunkUse added = {id_of.at(use.block), use.makes};
    chunks.insert(
        std::find_if(chunks.begin(), chunks.end(),
                     [&](const ChunkUse& c) { return added.chunk < c.chunk; }),
        added);
  }
  trace->signature = SignatureOf(*trace);
}

// A block's forward pass and its repetition tell what it takes either way: the
// repetition keeps everything.
void DryBackend::RecordBlock(int64_t number) {
  const auto& [forward, forward_end, again, again_end, backward, kept, kept_end,
               kept_backward] = marks_[number];
  const int64_t size = forward_end.moment - forward.moment;
  if (size == 0) return;
  CASTOR_CHECK(again_end.moment - again.moment == size);
  BlockRecord block = {.block = number,
                       .forward = Moment(forward.moment),
                       .backward = Moment(again.moment)};
  block.remake_bytes = again.live_bytes - forward.live_bytes;
  block.kept_bytes = backward.live_bytes - again.live_bytes;
  for (int64_t i = 0; i < size; ++i) {
    block.kept_peak_bytes.push_back(
        ops_[again.moment + i].non_model_peak_bytes -
        ops_[forward.moment + i].non_model_peak_bytes - block.remake_bytes);
  }
  blocks_.push_back(std::move(block));
}

StepTrace DryBackend::Finish(const ChunkLayout* layout, bool accumulate,
                             bool training, int64_t micro_batches) {
  StepTrace trace = MakeStepTrace(std::exchange(ops_, {}), layout, accumulate,
                                  training, micro_batches, roofline_);
  if (!activation_uses_.empty()) AddActivations(&trace);
  activation_uses_.clear();
  trace.blocks = std::exchange(blocks_, {});
  std::sort(trace.blocks.begin(), trace.blocks.end(),
            [](const BlockRecord& a, const BlockRecord& b) {
              return a.forward < b.forward;
            });
  // Storage that outlives the step has no place in it.
  const bool whole = !holds_ && std::all_of(storages_.begin(), storages_.end(),
                                            [](const TensorRecord& storage) {
                                              return storage.last.valid();
                                            });
  if (whole) trace.tensors = storages_;
  return trace;
}

}  // namespace castor
