// Updates that run before the norm of the step's gradients is known, and what
// makes them right.
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "kernels/cast/cast.h"
#include "kernels/run.h"
#include "run/optim/chunk_optimizer.h"

namespace castor {

absl::Status ChunkOptimizer::UpdateAside(
    const UpdateStep& step, const UpdateRanges& ranges, std::byte* home,
    const StateView& states, const ChunkStore::BankView& bank,
    const float* gradient_scale, int32_t* not_finite,
    const ExecContext& context) const {
  return UpdateWhereGradients(step, ranges,
                              {.payload = home,
                               .dtype = store_->layout().dtype,
                               .gradient_sum = states.sum,
                               .gradient_scale = gradient_scale,
                               .states = bank.states,
                               .from = &states,
                               .gradient = bank.gradients,
                               .not_finite = not_finite},
                              context);
}

absl::Status ChunkOptimizer::Speculate(ChunkId chunk, Moment moment) {
  if (!speculates_ || !store_->has_bank(chunk)) return absl::OkStatus();
  if (std::erase(sums_to_square_, chunk) > 0) {
    CASTOR_RETURN_IF_ERROR(SquareSum(chunk));
  }
  const WorkTag tag = {.kind = WorkKind::kUpdate,
                       .step = tag_step_,
                       .moment = moment.value,
                       .chunk = chunk.value};
  return store_->RunAhead(
      chunk, tag,
      [this, step = step_, ranges = RangesOf(chunk), scale = plain_scale(),
       not_finite = &not_finite_ahead_[chunk.value]](
          std::byte* home, const StateView& states,
          const ChunkStore::BankView& bank,
          const ExecContext& context) -> absl::Status {
        if (bank.gradients != nullptr) {
          const DType dtype = store_->layout().dtype;
          CASTOR_RETURN_IF_ERROR(
              kernels::Run(context, kernels::CastArgs{.size = states.elements,
                                                      .from = dtype,
                                                      .x = home,
                                                      .to = dtype,
                                                      .y = bank.gradients}));
        }
        *not_finite = 0;
        return UpdateAside(step, ranges, home, states, bank, &scale, not_finite,
                           context);
      });
}

// Its work is recorded as a part of the clipping: the update's time is that of
// its run ahead.
absl::Status ChunkOptimizer::Commit(ChunkId chunk, Moment moment) {
  const WorkTag tag = {.kind = WorkKind::kClip,
                       .step = tag_step_,
                       .moment = moment.value,
                       .chunk = chunk.value};
  return store_->Commit(
      chunk, tag,
      [this, of_step = &of_step(), step = step_, ranges = RangesOf(chunk),
       repeats = rate_changed_, ahead = &not_finite_ahead_[chunk.value]](
          std::byte* home, const StateView& states,
          const ChunkStore::BankView& bank,
          const ExecContext& context) -> absl::Status {
        if (!of_step->missed && !repeats) {
          ++committed_;
          if (*ahead != 0) {
            std::atomic_ref<int32_t>(of_step->not_finite).store(1);
          }
          return absl::OkStatus();
        }
        ++repeated_;
        return UpdateAside(step, ranges, home, states, bank,
                           &of_step->gradient_scale, &of_step->not_finite,
                           context);
      });
}

}  // namespace castor
