#include "benchmarks/direct_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "base/units.h"
#include "kernels/cast/cast.h"
#include "kernels/run.h"

namespace castor {

DirectBackend::DirectBackend(const ChunkLayout* layout,
                             const Parameters* parameters, int threads)
    : layout_(layout), parameters_(parameters), pool_(threads) {
  chunks_.resize(layout->num_chunks());
  for (int64_t i = 0; i < layout->num_chunks(); ++i) {
    const int64_t bytes = RoundUp(layout->payload_bytes(ChunkId(i)), 4096);
    chunks_[i].payload.reset(
        static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    std::memset(chunks_[i].payload.get(), 0, bytes);
    const int64_t n = layout->chunk(ChunkId(i)).elements;
    chunks_[i].master.resize(n);
    chunks_[i].m.resize(n);
    chunks_[i].v.resize(n);
  }
}

absl::Status DirectBackend::Fill(ParameterSource& source) {
  for (const auto& parameter : *parameters_) {
    Chunk& chunk = chunks_[parameter->chunk.value];
    float* master = chunk.master.data() + parameter->offset;
    CASTOR_RETURN_IF_ERROR(source.Read(*parameter, StatePart::kMaster, 0,
                                       parameter->elements(), master));
    CASTOR_RETURN_IF_ERROR(kernels::Run(
        context_,
        kernels::CastArgs{.size = parameter->elements(),
                          .from = DType::kFloat32,
                          .x = master,
                          .to = layout_->dtype,
                          .y = chunk.payload.get() +
                               parameter->offset * SizeOf(layout_->dtype)}));
  }
  return absl::OkStatus();
}

int64_t DirectBackend::Allocate(int64_t bytes) {
  const int64_t rounded = RoundUp(std::max<int64_t>(bytes, 1), 4096);
  void* block = nullptr;
  const auto cached =
      std::find_if(cache_.begin(), cache_.end(),
                   [&](const auto& entry) { return entry.first == rounded; });
  if (cached != cache_.end()) {
    block = cached->second;
    cache_.erase(cached);
  } else {
    block = std::aligned_alloc(4096, rounded);
  }
  if (free_ids_.empty()) {
    free_ids_.push_back(static_cast<int64_t>(storages_.size()));
    storages_.push_back(nullptr);
    sizes_.push_back(0);
  }
  const int64_t id = free_ids_.back();
  free_ids_.pop_back();
  storages_[id] = block;
  sizes_[id] = rounded;
  return id;
}

void DirectBackend::Release(int64_t storage_id) {
  cache_.emplace_back(sizes_[storage_id], storages_[storage_id]);
  free_ids_.push_back(storage_id);
}

absl::StatusOr<absl::InlinedVector<int64_t, 4>> DirectBackend::Run(
    BackendOp op) {
  Pointers pointers;
  for (const Operand& operand : op.operands) {
    pointers.operands.push_back(
        operand.storage_id >= 0
            ? storages_[operand.storage_id]
            : chunks_[operand.chunk.value].payload.get() + operand.byte_offset);
  }
  absl::InlinedVector<int64_t, 4> outputs;
  for (const OutputRequest& output : op.outputs) {
    outputs.push_back(Allocate(output.bytes));
    pointers.outputs.push_back(storages_[outputs.back()]);
  }
  const int64_t workspace =
      op.workspace_bytes > 0 ? Allocate(op.workspace_bytes) : -1;
  if (workspace >= 0) pointers.workspace = storages_[workspace];
  CASTOR_RETURN_IF_ERROR(op.kernel(pointers, context_));
  if (workspace >= 0) Release(workspace);
  return outputs;
}

absl::StatusOr<int64_t> DirectBackend::Upload(std::string, HostData data) {
  const int64_t storage = Allocate(data.bytes());
  std::memcpy(storages_[storage], data.Get().get(), data.bytes());
  return storage;
}

absl::StatusOr<int64_t> DirectBackend::Hold(std::string, int64_t bytes) {
  return Allocate(bytes);
}

absl::Status DirectBackend::Reduce(ChunkReduce op) {
  norm_pending_ = true;
  for (ParamId id : layout_->chunk(op.chunk).parameters) {
    const Parameter& parameter = *(*parameters_)[id.value];
    CASTOR_RETURN_IF_ERROR(kernels::Run(
        context_,
        kernels::AddSquaresArgs{.size = parameter.elements(),
                                .dtype = layout_->dtype,
                                .x = chunks_[op.chunk.value].payload.get() +
                                     parameter.offset * SizeOf(layout_->dtype),
                                .sum = &sum_}));
  }
  return absl::OkStatus();
}

absl::Status DirectBackend::Update(ChunkUpdate op) {
  if (norm_pending_) {
    const double scale = 1.0 / (std::sqrt(sum_.Value()) + 1e-6);
    gradient_scale_ = scale < 1 ? static_cast<float>(scale) : 1.0f;
    sum_ = kernels::ExactSum();
    norm_pending_ = false;
  }
  std::vector<kernels::AdamRange> ranges;
  for (ParamId id : layout_->chunk(op.chunk).parameters) {
    const Parameter& parameter = *(*parameters_)[id.value];
    ranges.push_back({.begin = parameter.offset,
                      .end = parameter.offset + parameter.elements(),
                      .hyper = {.step = step_}});
  }
  Chunk& chunk = chunks_[op.chunk.value];
  return kernels::Run(
      context_,
      kernels::AdamArgs{.payload = chunk.payload.get(),
                        .dtype = layout_->dtype,
                        .master = chunk.master.data(),
                        .m = chunk.m.data(),
                        .v = chunk.v.data(),
                        .grad_scale = &gradient_scale_,
                        .ranges = ranges.data(),
                        .num_ranges = static_cast<int64_t>(ranges.size())});
}

}  // namespace castor
