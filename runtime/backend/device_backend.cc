#include "runtime/backend/device_backend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/gpu_context.h"

namespace castor {

absl::Status DeviceBackend::BeginStep(const StepContext& step) {
  next_moment_ = 0;
  tag_step_ = step.tag;
  arena_->set_tag(WorkTag{.step = step.tag}.Pack());
  if (step.update.has_value()) {
    optimizer_->BeginStep(*step.update, step.tag, step.loss_scale,
                          step.speculates);
  }
  return Adopt(*step.trace, step.plan);
}

absl::Status DeviceBackend::Adopt(const StepTrace& trace,
                                  std::shared_ptr<const Plan> plan) {
  CASTOR_CHECK(plan->signature == trace.signature);
  trace_ = &trace;
  store_->BeginStep(&trace);
  activations_.BeginStep(trace);
  return executor_.Adopt(std::move(plan));
}

// Updates are the last operators of a step that waits for its norm.
Moment DeviceBackend::UpdateOf(ChunkId chunk) const {
  for (int64_t t = static_cast<int64_t>(trace_->ops.size()); t-- > 0;) {
    const OpRecord& op = trace_->ops[t];
    if (op.kind == OpKind::kUpdate && op.chunks[0].chunk == chunk) {
      return Moment(t);
    }
  }
  return Moment();
}

absl::Status DeviceBackend::EndStep() {
  const int64_t ops = static_cast<int64_t>(trace_->ops.size());
  if (next_moment_ != ops) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the step ended after ", next_moment_, " operators of the ", ops,
        " in its trace, before \"", trace_->ops[next_moment_].name, "\""));
  }
  return executor_.Act(Moment(ops), tag_step_);
}

absl::StatusOr<Moment> DeviceBackend::NextMoment(const std::string& name,
                                                 OpKind kind) {
  const Moment moment(next_moment_);
  if (next_moment_ >= static_cast<int64_t>(trace_->ops.size()) ||
      trace_->ops[next_moment_].name != name ||
      trace_->ops[next_moment_].kind != kind) {
    return absl::FailedPreconditionError(absl::StrCat(
        "operator ", next_moment_, " of the step is \"", name,
        "\", but the trace has ",
        next_moment_ < static_cast<int64_t>(trace_->ops.size())
            ? absl::StrCat("\"", trace_->ops[next_moment_].name, "\"")
            : "no more operators",
        ": a model's operators may depend on shapes alone"));
  }
  ++next_moment_;
  CASTOR_RETURN_IF_ERROR(executor_.Act(moment, tag_step_));
  return moment;
}

absl::StatusOr<int64_t> DeviceBackend::Allocate(int64_t bytes,
                                                Category category,
                                                const std::string& owner) {
  return AllocateAt(bytes, category, owner, executor_.NextNonModel(bytes));
}

absl::StatusOr<int64_t> DeviceBackend::AllocateAt(int64_t bytes,
                                                  Category category,
                                                  const std::string& owner,
                                                  int64_t at) {
  CASTOR_ASSIGN_OR_RETURN(
      const BlockId block,
      arena_->Allocate(bytes, category, End::kHigh, owner, at));
  non_model_bytes_ += arena_->Bytes(block);  // a unit at least
  return block.value;
}

void DeviceBackend::Release(int64_t storage_id) {
  const int64_t bytes = activations_.BytesOf(storage_id);
  non_model_bytes_ -= bytes;
  made_.Remove(storage_id);
  activations_.Release(storage_id);
}

absl::Status DeviceBackend::AtBlock(int64_t block, BlockPoint point,
                                    int64_t output) {
  if (point == BlockPoint::kKept) made_.Begin();
  if (point != BlockPoint::kKeptEnd) return absl::OkStatus();
  const std::vector<int64_t> storages = made_.End(output);
  const ChunkId chunk = activations_.ChunkOfBlock(block);
  if (!chunk.valid()) return absl::OkStatus();
  return activations_.Offer(chunk, storages);
}

size_t DeviceBackend::NumModelChunks(const OpRecord& record) const {
  size_t count = record.chunks.size();
  while (count > 0 && record.chunks[count - 1].chunk.value >=
                          store_->layout().num_chunks()) {
    --count;
  }
  return count;
}

absl::Status DeviceBackend::UseActivations(const OpRecord& record,
                                           WorkTag tag) {
  for (size_t i = NumModelChunks(record); i < record.chunks.size(); ++i) {
    const ChunkUse& use = record.chunks[i];
    if (use.writes) continue;  // by the operators before it
    CASTOR_ASSIGN_OR_RETURN(const Fence ready,
                            activations_.WaitToUse(use.chunk));
    tag.chunk = use.chunk.value;
    device_->Wait(StreamId::kCompute, ready, tag.Pack());
    CASTOR_RETURN_IF_ERROR(activations_.Used(use.chunk));
  }
  return absl::OkStatus();
}

absl::Status DeviceBackend::HasBlocks(Moment moment) const {
  if (observer_ != nullptr) {
    const ArenaStats& stats = arena_->stats();
    observer_->OnOperator(tag_step_, moment, stats.used, stats.used_bytes);
  }
  const OpRecord& op = trace_->ops[moment.value];
  const int64_t bytes = non_model_bytes_ - activations_.taken_bytes();
  if (bytes <= op.non_model_peak_bytes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "operator \"", op.name, "\" holds ", bytes,
      " non-model bytes, its trace says ", op.non_model_peak_bytes));
}

absl::StatusOr<absl::InlinedVector<int64_t, 4>> DeviceBackend::Run(
    BackendOp op) {
  CASTOR_ASSIGN_OR_RETURN(const Moment moment,
                          NextMoment(op.name, OpKind::kCompute));
  const OpRecord& record = trace_->ops[moment.value];
  if (!std::equal(op.chunks.begin(), op.chunks.end(), record.chunks.begin(),
                  record.chunks.begin() + NumModelChunks(record))) {
    return absl::FailedPreconditionError(
        absl::StrCat("operator \"", record.name,
                     "\" uses other parameters than in its "
                     "trace: a model's operators may depend on shapes alone"));
  }
  absl::InlinedVector<int64_t, 4> outputs;
  for (const OutputRequest& output : op.outputs) {
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t storage,
        Allocate(output.bytes, output.category, record.name));
    outputs.push_back(storage);
    made_.Add(storage);
  }
  int64_t workspace = -1;
  if (op.workspace_bytes > 0) {
    CASTOR_ASSIGN_OR_RETURN(
        workspace,
        Allocate(op.workspace_bytes, Category::kWorkspace, record.name));
  }
  CASTOR_RETURN_IF_ERROR(HasBlocks(moment));

  // No block moves from here on.
  const WorkTag tag = {
      .kind = WorkKind::kOperator, .step = tag_step_, .moment = moment.value};
  CASTOR_RETURN_IF_ERROR(UseActivations(record, tag));
  Pointers pointers;
  Fence ready;
  for (const Operand& operand : op.operands) {
    if (operand.storage_id >= 0) {
      const BlockId block = activations_.PlaceOf(operand.storage_id);
      if (!block.valid()) {
        return absl::InternalError(absl::StrCat(
            "activations that \"", record.name, "\" reads are on the host"));
      }
      ready.Add(operand.writes ? arena_->WaitToWrite(block)
                               : arena_->WaitToRead(block));
      pointers.operands.push_back(arena_->Pointer(block));
    } else {
      if (!store_->resident(operand.chunk)) {
        return absl::InternalError(absl::StrCat("chunk ", operand.chunk.value,
                                                " is not on the device for \"",
                                                record.name, "\""));
      }
      std::byte* const place = operand.writes ? store_->gradients(operand.chunk)
                                              : store_->payload(operand.chunk);
      pointers.operands.push_back(place + operand.byte_offset);
    }
  }
  for (const ChunkUse& use : op.chunks) {
    // A wait that is due to a chunk is recorded with it.
    WorkTag because = tag;
    because.chunk = use.chunk.value;
    device_->Wait(StreamId::kCompute,
                  store_->WaitToUsePayload(use.chunk, use.writes),
                  because.Pack());
  }
  for (int64_t storage : outputs) {
    ready.Add(arena_->WaitToWrite(BlockId(storage)));
    pointers.outputs.push_back(arena_->Pointer(BlockId(storage)));
  }
  if (workspace >= 0) {
    ready.Add(arena_->WaitToWrite(BlockId(workspace)));
    pointers.workspace = arena_->Pointer(BlockId(workspace));
  }
  device_->Wait(StreamId::kCompute, ready, tag.Pack());
  const Fence done = device_->Enqueue(
      StreamId::kCompute, tag.Pack(),
      [kernel = std::move(op.kernel), pointers = std::move(pointers),
       name = &record.name](const ExecContext& context) mutable {
        if (context.gpu != nullptr) context.gpu->SetName(*name);
        return Annotate(*name, kernel(pointers, context));
      });
  for (const Operand& operand : op.operands) {
    if (operand.gradient_bytes > 0) {
      store_->AddGradientBytes(operand.chunk, operand.gradient_bytes);
    }
    if (operand.storage_id < 0) continue;
    const BlockId block = activations_.PlaceOf(operand.storage_id);
    if (operand.writes) {
      arena_->NoteWrite(block, done);
    } else {
      arena_->NoteRead(block, done);
    }
  }
  for (const ChunkUse& use : op.chunks) {
    store_->NotePayloadUse(use.chunk, done, use.writes);
  }
  for (int64_t storage : outputs) arena_->NoteWrite(BlockId(storage), done);
  if (workspace >= 0) {
    arena_->NoteWrite(BlockId(workspace), done);
    Release(workspace);
  }
  return outputs;
}

void DeviceBackend::FreeUploads() {
  while (!in_flight_.empty() && device_->Reached(in_flight_.front().done)) {
    in_flight_.pop_front();
  }
}

absl::StatusOr<int64_t> DeviceBackend::Upload(std::string name, HostData data) {
  CASTOR_ASSIGN_OR_RETURN(const Moment moment,
                          NextMoment(name, OpKind::kCompute));
  CASTOR_ASSIGN_OR_RETURN(const int64_t storage,
                          Allocate(data.bytes(), Category::kActivations, name));
  made_.Add(storage);
  CASTOR_RETURN_IF_ERROR(HasBlocks(moment));
  FreeUploads();
  std::shared_ptr<const void> kept = data.Get();
  const BlockId block(storage);
  const WorkTag input = {
      .kind = WorkKind::kInput, .step = tag_step_, .moment = moment.value};
  CASTOR_RETURN_IF_ERROR(UseActivations(trace_->ops[moment.value], input));
  const int64_t tag = input.Pack();
  // The copy goes on the compute stream: on the bus it would queue behind the
  // fetches that were issued ahead.
  device_->Wait(StreamId::kCompute, arena_->WaitToWrite(block), tag);
  const Fence done =
      device_->Copy(StreamId::kCompute, tag, arena_->Pointer(block), kept.get(),
                    data.bytes());
  arena_->NoteWrite(block, done);
  in_flight_.push_back({done, std::move(kept)});
  return storage;
}

absl::StatusOr<int64_t> DeviceBackend::Hold(std::string name, int64_t bytes) {
  // It outlives the step, so no plan has a place for it.
  return AllocateAt(bytes, Category::kActivations, name, Arena::kAnywhere);
}

absl::Status DeviceBackend::Reduce(ChunkReduce op) {
  CASTOR_ASSIGN_OR_RETURN(const Moment moment,
                          NextMoment(op.name, OpKind::kReduce));
  CASTOR_RETURN_IF_ERROR(HasBlocks(moment));
  if (!op.last) store_->HoldsParameters(op.chunk);  // put back by the reduce
  return optimizer_->Reduce(op.chunk, op.micro_batch, moment);
}

absl::Status DeviceBackend::Update(ChunkUpdate op) {
  CASTOR_ASSIGN_OR_RETURN(const Moment moment,
                          NextMoment(op.name, OpKind::kUpdate));
  CASTOR_RETURN_IF_ERROR(HasBlocks(moment));
  store_->HoldsParameters(op.chunk);
  return optimizer_->Update(op.chunk, moment);
}

Fence DeviceBackend::Download(int64_t storage_id, void* out, int64_t bytes) {
  const BlockId block = activations_.PlaceOf(storage_id);
  const int64_t tag =
      WorkTag{.kind = WorkKind::kInput, .step = tag_step_}.Pack();
  // On the compute stream, as inputs are: on the bus it would queue behind the
  // gradients that earlier micro batches send home.
  device_->Wait(StreamId::kCompute, arena_->WaitToRead(block), tag);
  const Fence done = device_->Copy(StreamId::kCompute, tag, out,
                                   arena_->Pointer(block), bytes);
  Fence with_source = arena_->WaitToRead(block);  // whose failures count
  arena_->NoteRead(block, done);
  with_source.Add(done);
  return with_source;
}

}  // namespace castor
