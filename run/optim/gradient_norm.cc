// The norm of a step's gradients, over chunks, sides and ranks, by which
// updates are scaled or skipped.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/exact_sum/exact_sum.h"
#include "kernels/run.h"
#include "run/optim/chunk_optimizer.h"

namespace castor {

// Sums that the device made are squared on the host, where they are by now, so
// that the norm of a step without device-side chunks passes over no queue of
// the bus.
absl::Status ChunkOptimizer::SquareSum(ChunkId chunk) {
  const WorkTag tag = {
      .kind = WorkKind::kClip, .step = tag_step_, .chunk = chunk.value};
  return store_->RunOnHost(
      chunk, tag,
      [ranges = OwnRanges(chunk), norm = &host_->sum](
          std::byte*, const StateView& states,
          const ExecContext& context) -> absl::Status {
        for (const Range& range : ranges) {
          CASTOR_RETURN_IF_ERROR(kernels::Run(
              context,
              kernels::AddSquaresArgs{.size = range.end - range.begin,
                                      .dtype = DType::kFloat32,
                                      .x = states.sum + range.begin,
                                      .sum = norm,
                                      .label = range.parameter.value + 1}));
        }
        return absl::OkStatus();
      });
}

absl::Status ChunkOptimizer::SquareSums() {
  for (const ChunkId chunk : std::exchange(sums_to_square_, {})) {
    CASTOR_RETURN_IF_ERROR(SquareSum(chunk));
  }
  return absl::OkStatus();
}

absl::Status NotFiniteStatus(int64_t step, absl::string_view parameter,
                             int64_t in_a_row) {
  return absl::OutOfRangeError(absl::StrCat(
      "the gradient norm at step ", step, " is not finite",
      parameter.empty() ? "" : absl::StrCat(" (\"", parameter, "\")"),
      in_a_row > 1 ? absl::StrCat(", as at ", in_a_row - 1, " before it") : "",
      ": lower the learning rate, or resume from an earlier checkpoint with "
      "other settings"));
}

// An ExactSum is a row of integers, whose sums over ranks are exact too. The
// last one is a label, of which all ranks take the greatest.
absl::Status ChunkOptimizer::AddNormOverRanks(int64_t tag) {
  static_assert(sizeof(kernels::ExactSum) % sizeof(int64_t) == 0);
  static_assert(offsetof(kernels::ExactSum, invalid_label) ==
                sizeof(kernels::ExactSum) - sizeof(int64_t));
  constexpr int64_t kLast = sizeof(kernels::ExactSum) / sizeof(int64_t) - 1;
  auto* const words = reinterpret_cast<int64_t*>(&host_->sum);
  device_->Wait(StreamId::kNetwork, device_->Now(StreamId::kHostCompute), tag);
  CASTOR_ASSIGN_OR_RETURN(
      Fence summed, ranks_->AllReduce("gradient norm", tag, ReduceOp::kSum,
                                      absl::MakeSpan(words, kLast)));
  if (options_.skips_not_finite) {
    CASTOR_ASSIGN_OR_RETURN(
        const Fence labelled,
        ranks_->AllReduce("gradient overflow", tag, ReduceOp::kMax,
                          absl::MakeSpan(words + kLast, 1)));
    summed.Add(labelled);
  }
  device_->Wait(StreamId::kHostCompute, summed, tag);
  return absl::OkStatus();
}

// The device's part of the sum comes to the host, the scale goes back; both are
// a few bytes, and only where a chunk lives on the device's side.
absl::Status ChunkOptimizer::FinishNorm() {
  norm_pending_ = false;
  CASTOR_RETURN_IF_ERROR(SquareSums());
  const int64_t tag =
      WorkTag{.kind = WorkKind::kClip, .step = tag_step_}.Pack();
  bool on_device = false;
  for (int64_t i = 0; i < store_->layout().num_chunks(); ++i) {
    on_device |= store_->side(ChunkId(i)) == Side::kDevice;
  }
  HostScalars* host = host_.get();
  OfStep* const of_step = &this->of_step();
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
  if (on_device) {
    device_->Enqueue(StreamId::kHostCompute, tag, [host](const ExecContext&) {
      host->sum.Add(host->from_device);
      return absl::OkStatus();
    });
  }
  if (ranks_ != nullptr) CASTOR_RETURN_IF_ERROR(AddNormOverRanks(tag));
  device_->Wait(StreamId::kHostCompute, of_step->scale_copied, tag);
  const Fence scale_ready = device_->Enqueue(
      StreamId::kHostCompute, tag,
      [this, host, of_step, loss_scale = loss_scale_, plain = plain_scale(),
       step = step_.number](const ExecContext&) -> absl::Status {
        const int64_t label = host->sum.invalid_label;
        const double norm = std::sqrt(host->sum.Value()) / loss_scale;
        host->sum = kernels::ExactSum();
        of_step->outcome = {.norm = norm, .not_finite = {}};
        if (!std::isfinite(norm)) {
          of_step->outcome.norm = std::numeric_limits<double>::infinity();
          if (label > 0) of_step->outcome.not_finite = ParamId(label - 1);
          // Optimizer::Update takes this as: leave everything as it is.
          of_step->gradient_scale = std::numeric_limits<float>::quiet_NaN();
          of_step->missed = true;
          if (options_.skips_not_finite) return absl::OkStatus();
          // Several ranks have not compared their labels.
          return NotFiniteStatus(
              step,
              label > 0 && ranks_ == nullptr
                  ? store_->layout().parameter(ParamId(label - 1)).name
                  : "",
              /*in_a_row=*/1);
        }
        // The formula is torch.nn.utils.clip_grad_norm_'s.
        const double limit = options_.gradient_clipping;
        const double clip = limit > 0 ? limit / (norm + 1e-6) : 1;
        of_step->gradient_scale =
            static_cast<float>(std::min(clip, 1.0) / loss_scale);
        of_step->missed = of_step->gradient_scale != plain;
        return absl::OkStatus();
      });
  outcome_ready_ = scale_ready;
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
                      &of_step->gradient_scale, sizeof(float));
    arena_->NoteWrite(scalars_, done);
    of_step->scale_copied = done;
  }
  return absl::OkStatus();
}

void ChunkOptimizer::ForgetBroken() {
  for (OfStep& step : host_->steps) step.not_finite = 0;
}

absl::Status ChunkOptimizer::UndoStep() {
  turn_ ^= 1;  // as if it had not begun
  host_->sum = kernels::ExactSum();
  sums_to_square_.clear();
  const int64_t tag = WorkTag{.step = tag_step_}.Pack();
  device_->Wait(StreamId::kCompute, arena_->WaitToWrite(scalars_), tag);
  const Fence done =
      device_->Fill(StreamId::kCompute, tag,
                    static_cast<std::byte*>(arena_->Pointer(scalars_)) +
                        offsetof(DeviceScalars, sum),
                    0, sizeof(kernels::ExactSum));
  arena_->NoteWrite(scalars_, done);
  return device_->Synchronize(done);
}

}  // namespace castor
