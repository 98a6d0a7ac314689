#include "run/optim/skip_rule.h"

#include "run/optim/chunk_optimizer.h"

namespace castor {

void SkipRule::Restore(const std::optional<LossScaleState>& state) {
  in_a_row_ = 0;
  if (scales() && state.has_value()) scaler_->Restore(*state);
}

absl::Status SkipRule::Settle(int64_t step, absl::string_view not_finite) {
  if (scales()) return scaler_->Update(step, not_finite);
  in_a_row_ = not_finite.empty() ? 0 : in_a_row_ + 1;
  return in_a_row_ < most_in_a_row_
             ? absl::OkStatus()
             : NotFiniteStatus(step, not_finite, in_a_row_);
}

}  // namespace castor
