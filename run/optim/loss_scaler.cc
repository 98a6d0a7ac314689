#include "run/optim/loss_scaler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

constexpr double kFactor = 2;

}  // namespace

LossScaler::LossScaler(const LossScaleOptions& options)
    : options_(options),
      state_(
          {.scale = options.initial, .hysteresis_left = options.hysteresis}) {}

void LossScaler::Restore(const LossScaleState& state) {
  if (!options_.dynamic) return;
  state_ = state;
  state_.scale = std::clamp(state.scale, options_.minimum, kMaxLossScale);
  state_.hysteresis_left =
      std::clamp<int64_t>(state.hysteresis_left, 1, options_.hysteresis);
}

absl::Status LossScaler::Update(int64_t step, absl::string_view overflow) {
  if (!options_.dynamic) return absl::OkStatus();
  if (overflow.empty()) {
    const int64_t before = state_.good_steps++;
    if (before == 0 || before % options_.window != 0) return absl::OkStatus();
    state_.hysteresis_left = options_.hysteresis;
    state_.scale = std::min(state_.scale * kFactor, kMaxLossScale);
    return absl::OkStatus();
  }
  state_.good_steps = 0;
  if (state_.hysteresis_left > 1) {
    --state_.hysteresis_left;
    return absl::OkStatus();
  }
  if (state_.scale <= options_.minimum) {
    return absl::OutOfRangeError(absl::StrCat(
        "step ", step, " overflows at a loss scale of ", state_.scale,
        ", the smallest allowed (fp16.min_loss_scale): the gradient of \"",
        overflow,
        "\" is not finite; lower the learning rate, or train in bf16"));
  }
  state_.scale = std::max(state_.scale / kFactor, options_.minimum);
  return absl::OkStatus();
}

}  // namespace castor
