// The scale of the loss in fp16 training.
//
// Gradients below 2^-24 vanish in fp16, so the loss is multiplied by a scale
// before backward and the gradients are divided by it where they are used. A
// gradient that then is no longer finite (an overflow) makes its step skipped:
// no parameter and no optimizer state changes. A dynamic scale
//
//   - is doubled at a step without an overflow before which `window`, or a
//     multiple of it, were in a row, and
//   - is halved at an overflow, but not below `minimum`, when `hysteresis - 1`
//     overflows were let pass before it; these are forgiven when it is doubled.
//
// Sources: Micikevicius et al., "Mixed precision training", 2018; the rule of
// DeepSpeed's DynamicLossScaler (deepspeed/runtime/fp16/loss_scaler.py), with
// consecutive_hysteresis off. What we add: the scale stays at most 2^100, where
// a model whose gradients are all 0 would take it to infinity.
#ifndef CASTOR_RUN_OPTIM_LOSS_SCALER_H_
#define CASTOR_RUN_OPTIM_LOSS_SCALER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor {

// Within these limits of the scale, a loss times the scale is an fp32 number
// still.
inline constexpr double kMinLossScale = 0x1p-100;
inline constexpr double kMaxLossScale = 0x1p100;

struct LossScaleOptions {
  bool dynamic = true;
  double initial = 65536;  // the scale itself if it is not dynamic
  int64_t window = 1000;
  int64_t hysteresis = 2;
  double minimum = 1;
};

// The state with which a resumed run goes on as if it had not been interrupted.
struct LossScaleState {
  double scale = 1;
  int64_t good_steps = 0;  // in a row, since the last overflow
  int64_t hysteresis_left = 1;

  friend bool operator==(const LossScaleState&,
                         const LossScaleState&) = default;
};

class LossScaler {
 public:
  explicit LossScaler(const LossScaleOptions& options);

  double scale() const { return state_.scale; }
  const LossScaleState& state() const { return state_; }
  // Takes over the state of a run that is resumed. A scale that is not dynamic
  // stays what the options say; so does the limit of the overflows let pass.
  void Restore(const LossScaleState& state);

  // Call it after each step. `overflow`: a parameter whose gradient was not
  // finite; empty if all were. OutOfRange: the scale would have to go below the
  // minimum, and training has nothing left to try. `step` is for the message.
  absl::Status Update(int64_t step, absl::string_view overflow);

 private:
  const LossScaleOptions options_;
  LossScaleState state_;
};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_LOSS_SCALER_H_
