#include "runtime/autograd/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/cast/cast.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"

namespace castor {
namespace {

GradientPlace::Owner OwnerOf(const Parameter& parameter) {
  return {.name = parameter.name, .trainable = parameter.trainable};
}

}  // namespace

Engine::Engine(DType dtype, uint64_t seed) : dtype_(dtype), seed_(seed) {}
Engine::~Engine() = default;

Parameter& Engine::AddParameter(absl::string_view name, const Shape& shape,
                                Initializer init) {
  absl::Status mistake;
  if (FindParameter(name) != nullptr) {
    mistake = absl::InvalidArgumentError(
        absl::StrCat("two parameters are named \"", name,
                     "\": give each module its own name"));
  } else if (shape.elements() <= 0) {
    mistake = absl::InvalidArgumentError(absl::StrCat(
        "parameter \"", name, "\" has no elements: shape ", shape.ToString()));
  }
  construction_status_.Update(mistake);
  auto parameter = std::make_unique<Parameter>();
  parameter->id = ParamId(static_cast<int64_t>(parameters_.size()));
  parameter->name = std::string(name);
  parameter->shape = shape;
  parameter->init = init;
  by_name_.try_emplace(parameter->name, parameter.get());
  parameters_.push_back(std::move(parameter));
  used_.push_back(false);
  gradient_places_.emplace_back();
  return *parameters_.back();
}

Parameter* Engine::FindParameter(absl::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

void Engine::SetLossGradient(double loss_scale,
                             absl::Span<const int64_t> labels) {
  loss_gradients_.clear();
  for (const int64_t of_term : labels) {
    loss_gradients_.push_back(
        of_term == 0
            ? 0.0F
            : static_cast<float>(loss_scale / static_cast<double>(of_term)));
  }
}

void Engine::SetLayout(const ChunkLayout* layout) {
  layout_ = layout;
  for (auto& parameter : parameters_) {
    GradientPlaceOf(*parameter).Move();
    if (layout == nullptr) {
      parameter->chunk = ChunkId();
      parameter->offset = 0;
      continue;
    }
    const ChunkPlace place = layout->place(parameter->id);
    parameter->chunk = place.chunk;
    parameter->offset = place.offset;
  }
}

void Engine::SetBackend(Backend* backend) {
  for (auto& parameter : parameters_) GradientPlaceOf(*parameter).DropEarly();
  backend_ = backend;
}

void Engine::NoteUse(const Parameter& parameter) {
  if (used_[parameter.id.value]) return;
  used_[parameter.id.value] = true;
  first_use_.push_back(parameter.id);
}

Operand Engine::PlaceOf(const Parameter& parameter,
                        bool writes_gradient) const {
  const bool takes_over =
      writes_gradient && !gradient_place(parameter).holds_gradient();
  return {
      .chunk = parameter.chunk,
      .byte_offset = parameter.offset * SizeOf(dtype_),
      .writes = writes_gradient,
      .gradient_bytes = takes_over ? parameter.elements() * SizeOf(dtype_) : 0};
}

void Engine::BeginMicroBatch(const MicroBatchContext& context) {
  context_ = context;
  announced_ = {};
  next_block_ = 0;
  in_block_ = false;
  phase_ = Phase::kForward;
  grad_mode_ = context.training ? GradMode::kRecord : GradMode::kOff;
  chunk_pending_.assign(layout_ == nullptr ? 0 : layout_->num_chunks(), 0);
  for (auto& parameter : parameters_) {
    GradientPlaceOf(*parameter).Begin();
    if (context.training && layout_ != nullptr && parameter->trainable) {
      ++chunk_pending_[parameter->chunk.value];
    }
  }
}

absl::Status Engine::EndMicroBatch() {
  if (!training()) return absl::OkStatus();
  for (auto& parameter : parameters_) {
    if (!parameter->trainable) continue;
    if (!GradientPlaceOf(*parameter).holds_gradient() &&
        GradientPlaceOf(*parameter).state() != TensorState::kReadyForReduce &&
        (layout_ == nullptr || chunk_pending_[parameter->chunk.value] > 0)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "parameter \"", parameter->name,
          "\" takes no part in the loss, so it has no gradient: use it, remove "
          "it from the model, or freeze it (model.frozen)"));
    }
    if (layout_ == nullptr) GradientPlaceOf(*parameter).End();
  }
  return absl::OkStatus();
}

void Engine::LeaveMicroBatch() {
  context_.tape = nullptr;
  context_.cache = nullptr;
  context_.first_position = 0;
  documents_ = nullptr;
  segments_ = Tensor();
}

void Engine::AbandonMicroBatch() {
  LeaveMicroBatch();
  checkpoint_uses_ = nullptr;
  in_block_ = false;
  grad_mode_ = GradMode::kOff;
  for (auto& parameter : parameters_) GradientPlaceOf(*parameter).End();
}

absl::Status Engine::UpdateParameters() {
  phase_ = Phase::kOptimizer;
  CASTOR_CHECK(layout_ != nullptr);
  if (update_at_once_) return absl::OkStatus();
  for (int64_t i = 0; i < layout_->num_chunks(); ++i) {
    if (!layout_->chunk(ChunkId(i)).trainable) continue;
    CASTOR_RETURN_IF_ERROR(UpdateChunk(ChunkId(i)));
  }
  return absl::OkStatus();
}

absl::Status Engine::UpdateChunk(ChunkId chunk) {
  const std::string name = absl::StrCat("update/chunk ", chunk.value);
  CASTOR_RETURN_IF_ERROR(backend_->Update({chunk, name}));
  return PayloadsHoldParameters(chunk, name);
}

RandomKey Engine::DropoutKey(absl::string_view site) const {
  return {seed_, MixKey(HashName(site.data(), site.size()),
                        static_cast<uint64_t>(context_.global_index))};
}

Tensor Engine::NewTensor(int64_t storage_id, const Shape& shape, DType dtype) {
  return Tensor(std::make_shared<Storage>(backend_, storage_id), shape, dtype,
                NewTensorId());
}

absl::StatusOr<Tensor> Engine::Upload(absl::string_view name,
                                      const Shape& shape, HostData data) {
  CASTOR_CHECK(data.elements() == shape.elements());
  CASTOR_ASSIGN_OR_RETURN(const int64_t storage,
                          backend_->Upload(std::string(name), std::move(data)));
  return NewTensor(storage, shape, DType::kFloat32);
}

absl::StatusOr<Tensor> Engine::Hold(absl::string_view name, const Shape& shape,
                                    DType dtype) {
  CASTOR_ASSIGN_OR_RETURN(
      const int64_t storage,
      backend_->Hold(std::string(name), shape.elements() * SizeOf(dtype)));
  return NewTensor(storage, shape, dtype);
}

void Engine::ExpectBackward(Parameter& parameter, bool reads) {
  if (grad_mode_ == GradMode::kOff) return;
  const bool in_checkpoint = grad_mode_ == GradMode::kCheckpoint;
  ExpectedUses& uses = in_checkpoint ? *checkpoint_uses_ : announced_;
  // A checkpointed block reads every parameter again when it is recomputed.
  if (reads || in_checkpoint) {
    GradientPlaceOf(parameter).ExpectRead();
    uses.reads.push_back(&parameter);
  }
  if (parameter.trainable) {
    GradientPlaceOf(parameter).ExpectGradient();
    uses.gradients.push_back(&parameter);
  }
}

absl::Status Engine::DoneReading(Parameter& parameter) {
  CASTOR_ASSIGN_OR_RETURN(
      const bool move, GradientPlaceOf(parameter).EndRead(OwnerOf(parameter)));
  return move ? MoveEarlyGradient(parameter) : absl::OkStatus();
}

// The values are needed no more: what was collected beside them takes over.
absl::Status Engine::MoveEarlyGradient(Parameter& parameter) {
  const Tensor early = GradientPlaceOf(parameter).TakeEarly();
  Op op(*this, absl::StrCat(parameter.name, "/gradient_in_place"));
  const int from = op.Read(early);
  const Op::GradientSlot to = op.WriteGradient(parameter);
  CASTOR_CHECK(!to.accumulate);
  const int64_t size = parameter.elements();
  op.Cost(0, 2.0 * size * SizeOf(dtype_));
  return op.Run([=, dtype = dtype_](const Pointers& p, const ExecContext& c) {
    return kernels::Run(c, kernels::CastArgs{.size = size,
                                             .from = dtype,
                                             .x = p[from],
                                             .to = dtype,
                                             .y = p[to.slot]});
  });
}

void Engine::CollectCheckpointUses(ExpectedUses* uses) {
  checkpoint_uses_ = uses;
  grad_mode_ = uses != nullptr ? GradMode::kCheckpoint : GradMode::kRecord;
}

absl::Status Engine::TakeBack(const ExpectedUses& uses) {
  for (Parameter* parameter : uses.gradients) {
    GradientPlaceOf(*parameter).TakeBackGradient();
  }
  for (Parameter* parameter : uses.reads) {
    CASTOR_RETURN_IF_ERROR(DoneReading(*parameter));
  }
  for (Parameter* parameter : uses.gradients) {
    CASTOR_ASSIGN_OR_RETURN(
        const bool complete,
        GradientPlaceOf(*parameter).CompleteWithoutUse(OwnerOf(*parameter)));
    if (complete) CASTOR_RETURN_IF_ERROR(GradientComplete(*parameter));
  }
  return absl::OkStatus();
}

absl::Status Engine::EnterCompute(const Op& op) {
  for (const Op::ParameterUse& use : op.parameters_) {
    CASTOR_RETURN_IF_ERROR(
        GradientPlaceOf(*use.parameter)
            .Enter(OwnerOf(*use.parameter), op.name_, use.writes));
  }
  return absl::OkStatus();
}

absl::Status Engine::LeaveCompute(Op& op) {
  for (const Op::Contribution& done : op.contributions_) {
    if (!done.where.has_value()) continue;
    GradientPlaceOf(*done.parameter)
        .Contribute(
            *done.where, done.ends_a_read,
            done.early_output >= 0 ? op.outputs_[done.early_output] : Tensor());
  }
  for (const Op::ParameterUse& use : op.parameters_) {
    CASTOR_RETURN_IF_ERROR(GradientPlaceOf(*use.parameter)
                               .Leave(OwnerOf(*use.parameter), op.name_));
  }
  for (const Op::Contribution& done : op.contributions_) {
    Parameter& parameter = *done.parameter;
    const bool in_place = done.where == GradientPlace::Where::kInPlace;
    if (done.ends_a_read && !in_place) {
      CASTOR_RETURN_IF_ERROR(DoneReading(parameter));
    }
    if (in_place &&
        GradientPlaceOf(parameter).state() == TensorState::kReadyForReduce) {
      CASTOR_RETURN_IF_ERROR(GradientComplete(parameter));
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::GradientComplete(const Parameter& parameter) {
  if (layout_ == nullptr) return absl::OkStatus();
  const ChunkId chunk = parameter.chunk;
  if (--chunk_pending_[chunk.value] > 0) return absl::OkStatus();
  const std::string name = absl::StrCat("reduce/chunk ", chunk.value);
  const bool last = context_.index + 1 == context_.count;
  CASTOR_RETURN_IF_ERROR(backend_->Reduce({chunk, name, context_.index, last}));
  if (!last) return PayloadsHoldParameters(chunk, name);
  return update_at_once_ ? UpdateChunk(chunk) : absl::OkStatus();
}

absl::Status Engine::PayloadsHoldParameters(ChunkId chunk,
                                            absl::string_view op) {
  for (ParamId id : layout_->chunk(chunk).parameters) {
    Parameter& parameter = *parameters_[id.value];
    CASTOR_RETURN_IF_ERROR(
        GradientPlaceOf(parameter).Restore(OwnerOf(parameter), op));
  }
  return absl::OkStatus();
}

absl::Status Engine::RunOp(Op& op, Kernel kernel) {
  CASTOR_CHECK(backend_ != nullptr);
  CASTOR_RETURN_IF_ERROR(EnterCompute(op));
  BackendOp request;
  request.name = op.name_;
  request.phase = phase_;
  request.cost = op.cost_;
  request.flops = op.flops_;
  request.bytes = op.bytes_;
  request.operands = op.operands_;
  request.operand_shapes = op.operand_shapes_;
  request.workspace_bytes = op.workspace_bytes_;
  for (const Op::OutputSpec& spec : op.output_specs_) {
    request.output_shapes.push_back(spec.shape);
    request.outputs.push_back(
        {spec.shape.elements() * SizeOf(spec.dtype), spec.category});
  }
  if (layout_ != nullptr) {
    for (const Op::ParameterUse& use : op.parameters_) {
      const ChunkId chunk = use.parameter->chunk;
      auto at = std::find_if(
          request.chunks.begin(), request.chunks.end(),
          [&](const ChunkUse& other) { return other.chunk == chunk; });
      if (at == request.chunks.end()) {
        request.chunks.push_back({chunk, use.writes});
      } else {
        at->writes |= use.writes;
      }
    }
    std::sort(
        request.chunks.begin(), request.chunks.end(),
        [](const ChunkUse& a, const ChunkUse& b) { return a.chunk < b.chunk; });
  }
  request.kernel = std::move(kernel);
  auto storages = backend_->Run(std::move(request));
  if (!storages.ok()) return storages.status();
  for (size_t i = 0; i < op.output_specs_.size(); ++i) {
    op.outputs_.push_back(NewTensor((*storages)[i], op.output_specs_[i].shape,
                                    op.output_specs_[i].dtype));
  }
  op.keep_alive_.clear();
  return LeaveCompute(op);
}

}  // namespace castor
