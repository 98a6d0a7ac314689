// The rule for steps that are skipped since a gradient is not finite, whoever
// issues the run's operators: in fp16 the loss's scale sinks, otherwise so many
// in a row end the run.
#ifndef CASTOR_RUN_OPTIM_SKIP_RULE_H_
#define CASTOR_RUN_OPTIM_SKIP_RULE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "run/optim/loss_scaler.h"

namespace castor {

class SkipRule {
 public:
  // `scale`: that of the loss, in fp16. Without one `most_in_a_row` such steps
  // end the run.
  SkipRule(const std::optional<LossScaleOptions>& scale, int64_t most_in_a_row)
      : most_in_a_row_(most_in_a_row) {
    if (scale.has_value()) scaler_.emplace(*scale);
  }

  bool scales() const { return scaler_.has_value(); }
  // The factor of losses, which makes their gradients that many times as large;
  // 1 without a scale.
  double loss_scale() const { return scales() ? scaler_->scale() : 1; }
  std::optional<LossScaleState> scale_state() const {
    return scales() ? std::optional(scaler_->state()) : std::nullopt;
  }
  // Goes on from a checkpoint's state, as if no step had been skipped lately.
  void Restore(const std::optional<LossScaleState>& state);

  // Call it after each step. `not_finite`: a parameter whose gradient was not,
  // so that the step was skipped; empty if all were. OutOfRange: why nothing
  // can be trained any more.
  absl::Status Settle(int64_t step, absl::string_view not_finite);

 private:
  const int64_t most_in_a_row_;
  std::optional<LossScaler> scaler_;
  int64_t in_a_row_ = 0;
};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_SKIP_RULE_H_
