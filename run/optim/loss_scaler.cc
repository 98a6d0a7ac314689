#include "run/optim/loss_scaler.h"

#include <algorithm>

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

bool LossScaler::Update(bool overflow) {
  if (!options_.dynamic) return true;
  if (!overflow) {
    const int64_t before = state_.good_steps++;
    if (before == 0 || before % options_.window != 0) return true;
    state_.hysteresis_left = options_.hysteresis;
    state_.scale = std::min(state_.scale * kFactor, kMaxLossScale);
    return true;
  }
  state_.good_steps = 0;
  if (state_.hysteresis_left > 1) {
    --state_.hysteresis_left;
    return true;
  }
  const bool can_sink = state_.scale > options_.minimum;
  state_.scale = std::max(state_.scale / kFactor, options_.minimum);
  return can_sink;
}

}  // namespace castor
