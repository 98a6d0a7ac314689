#include "runtime/chunk_optimizer.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor {

absl::StatusOr<std::unique_ptr<ChunkOptimizer>> ChunkOptimizer::Create(
    Device* device, Arena* arena, ChunkStore* store,
    const std::vector<std::unique_ptr<Parameter>>* parameters,
    OptimizerOptions options) {
  std::unique_ptr<ChunkOptimizer> optimizer(new ChunkOptimizer());
  optimizer->device_ = device;
  optimizer->arena_ = arena;
  optimizer->store_ = store;
  optimizer->parameters_ = parameters;
  optimizer->options_ = std::move(options);
  optimizer->host_ = std::make_unique<HostScalars>();
  CASTOR_ASSIGN_OR_RETURN(
      optimizer->scalars_,
      arena->Allocate(kReservedBytes, Category::kStaging, End::kLow,
                      "optimizer scalars"));
  device->Wait(StreamId::kCompute, arena->WaitToWrite(optimizer->scalars_), 0);
  const Fence done = device->Enqueue(
      StreamId::kCompute, WorkTag{}.Pack(),
      [scalars = static_cast<DeviceScalars*>(arena->Pointer(
           optimizer->scalars_))](const ExecContext&) {
        *scalars = DeviceScalars{.sum = {}, .gradient_scale = 1};
        return absl::OkStatus();
      });
  arena->NoteWrite(optimizer->scalars_, done);
  return optimizer;
}

void ChunkOptimizer::BeginStep(int64_t step, double lr, uint16_t tag_step) {
  step_ = step;
  lr_ = lr;
  tag_step_ = tag_step;
  norm_pending_ = options_.gradient_clipping > 0;
}

absl::Status ChunkOptimizer::Run(ChunkId chunk, WorkTag tag, ChunkWork work) {
  if (store_->side(chunk) == Side::kHost) {
    HostScalars* host = host_.get();
    return store_->RunOnHost(
        chunk, tag,
        [work = std::move(work), host](std::byte* home,
                                       const OptimizerView& states,
                                       const ExecContext& context) mutable {
          return work(home, states, &host->sum, &host->gradient_scale,
                      context);
        });
  }
  if (!store_->resident(chunk)) {
    return absl::InternalError(absl::StrCat(
        "chunk ", chunk.value, " has its optimizer states on the device and "
        "its payload elsewhere when its gradients are complete"));
  }
  Fence ready = store_->WaitToUsePayload(chunk, /*writes=*/true);
  ready.Add(store_->WaitToUseOptimizer(chunk));
  ready.Add(arena_->WaitToWrite(scalars_));
  device_->Wait(StreamId::kCompute, ready, tag.Pack());
  auto* scalars = static_cast<DeviceScalars*>(arena_->Pointer(scalars_));
  const Fence done = device_->Enqueue(
      StreamId::kCompute, tag.Pack(),
      [work = std::move(work), scalars, payload = store_->payload(chunk),
       states = store_->optimizer_on_device(chunk)](
          const ExecContext& context) mutable {
        return work(payload, states, &scalars->sum, &scalars->gradient_scale,
                    context);
      });
  store_->NotePayloadUse(chunk, done, /*writes=*/true);
  store_->NoteOptimizerUse(chunk, done);
  arena_->NoteWrite(scalars_, done);
  return absl::OkStatus();
}

absl::Status ChunkOptimizer::Reduce(ChunkId chunk, int64_t micro_batch,
                                    Moment moment) {
  const ChunkSpec& spec = store_->layout().chunk(chunk);
  const DType dtype = store_->layout().dtype;
  const bool accumulate = options_.micro_batches > 1;
  const bool last = micro_batch + 1 == options_.micro_batches;
  struct Range {
    int64_t begin, size;
  };
  std::vector<Range> ranges;
  if (last && options_.gradient_clipping > 0) {
    for (ParamId id : spec.parameters) {
      const Parameter& parameter = *(*parameters_)[id.value];
      ranges.push_back({parameter.offset, parameter.elements()});
    }
  }
  return Run(
      chunk,
      {.kind = WorkKind::kReduce,
       .step = tag_step_,
       .moment = moment.value,
       .chunk = chunk.value},
      [=, ranges = std::move(ranges)](
          std::byte* payload, const OptimizerView& states,
          kernels::ExactSum* sum, const float*,
          const ExecContext& context) -> absl::Status {
        if (accumulate) {
          CASTOR_RETURN_IF_ERROR(kernels::AccumulateGradient(
              context, states.elements, dtype, payload, states.sum,
              states.master, /*assign=*/micro_batch == 0, /*restore=*/!last));
        }
        for (const Range& range : ranges) {
          CASTOR_RETURN_IF_ERROR(
              accumulate
                  ? kernels::AddSquares(context, range.size, DType::kFloat32,
                                        states.sum + range.begin, sum)
                  : kernels::AddSquares(context, range.size, dtype,
                                        payload + range.begin * SizeOf(dtype),
                                        sum));
        }
        return absl::OkStatus();
      });
}

// The device's part of the sum comes to the host, the scale goes back; both are
// a few bytes, and only where a chunk lives on the device's side.
absl::Status ChunkOptimizer::FinishNorm() {
  norm_pending_ = false;
  const int64_t tag =
      WorkTag{.kind = WorkKind::kClip, .step = tag_step_}.Pack();
  bool on_device = false;
  for (int64_t i = 0; i < store_->layout().num_chunks(); ++i) {
    on_device |= store_->side(ChunkId(i)) == Side::kDevice;
  }
  HostScalars* host = host_.get();
  std::byte* scalars = static_cast<std::byte*>(arena_->Pointer(scalars_));
  const int64_t sum_bytes = sizeof(kernels::ExactSum);
  Fence sums_ready;
  if (on_device) {
    Fence ready = arena_->WaitToRead(scalars_);
    ready.Add(device_->Now(StreamId::kHostCompute));
    device_->Wait(StreamId::kDeviceToHost, ready, tag);
    sums_ready =
        device_->Copy(StreamId::kDeviceToHost, tag, &host->from_device,
                      scalars + offsetof(DeviceScalars, sum), sum_bytes);
    arena_->NoteRead(scalars_, sums_ready);
  }
  device_->Wait(StreamId::kHostCompute, sums_ready, tag);
  const Fence scale_ready = device_->Enqueue(
      StreamId::kHostCompute, tag,
      [host, on_device, limit = options_.gradient_clipping,
       step = step_](const ExecContext&) -> absl::Status {
        if (on_device) host->sum.Add(host->from_device);
        const double norm = std::sqrt(host->sum.Value());
        host->sum = kernels::ExactSum();
        host->norm = norm;
        if (!std::isfinite(norm)) {
          return absl::FailedPreconditionError(absl::StrCat(
              "the gradient norm at step ", step,
              " is not finite: lower the learning rate, or resume from the "
              "last checkpoint with other settings"));
        }
        // As torch.nn.utils.clip_grad_norm_.
        const double scale = limit / (norm + 1e-6);
        host->gradient_scale = scale < 1 ? static_cast<float>(scale) : 1.0f;
        return absl::OkStatus();
      });
  if (on_device) {
    Fence ready = arena_->WaitToWrite(scalars_);
    ready.Add(scale_ready);
    device_->Wait(StreamId::kHostToDevice, ready, tag);
    device_->Copy(StreamId::kHostToDevice, tag,
                  scalars + offsetof(DeviceScalars, sum), &host->zero,
                  sum_bytes);
    const Fence done =
        device_->Copy(StreamId::kHostToDevice, tag,
                      scalars + offsetof(DeviceScalars, gradient_scale),
                      &host->gradient_scale, sizeof(float));
    arena_->NoteWrite(scalars_, done);
    // The next step's host work writes what these copies read.
    device_->Wait(StreamId::kHostCompute, done, tag);
  }
  return absl::OkStatus();
}

std::vector<kernels::AdamRange> ChunkOptimizer::Ranges(ChunkId chunk) const {
  std::vector<kernels::AdamRange> ranges;
  for (ParamId id : store_->layout().chunk(chunk).parameters) {
    const Parameter& parameter = *(*parameters_)[id.value];
    ranges.push_back(
        {.begin = parameter.offset,
         .end = parameter.offset + parameter.elements(),
         .hyper = {.lr = lr_,
                   .beta1 = options_.beta1,
                   .beta2 = options_.beta2,
                   .eps = options_.eps,
                   .weight_decay = options_.weight_decay[id.value],
                   .decoupled = options_.decoupled,
                   .step = step_}});
  }
  return ranges;
}

absl::Status ChunkOptimizer::Update(ChunkId chunk, Moment moment) {
  if (norm_pending_) CASTOR_RETURN_IF_ERROR(FinishNorm());
  return Run(chunk,
             {.kind = WorkKind::kUpdate,
              .step = tag_step_,
              .moment = moment.value,
              .chunk = chunk.value},
             [ranges = Ranges(chunk), dtype = store_->layout().dtype,
              accumulate = options_.micro_batches > 1](
                 std::byte* payload, const OptimizerView& states,
                 kernels::ExactSum*, const float* gradient_scale,
                 const ExecContext& context) {
               return kernels::AdamUpdate(
                   context,
                   {.payload = payload,
                    .dtype = dtype,
                    .gradient_sum = accumulate ? states.sum : nullptr,
                    .master = states.master,
                    .m = states.m,
                    .v = states.v,
                    .grad_scale = gradient_scale,
                    .ranges = ranges.data(),
                    .num_ranges = static_cast<int64_t>(ranges.size())});
             });
}

}  // namespace castor
