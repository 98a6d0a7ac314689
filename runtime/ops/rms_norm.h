// Root mean square normalisation.
#ifndef CASTOR_RUNTIME_OPS_RMS_NORM_H_
#define CASTOR_RUNTIME_OPS_RMS_NORM_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// y [.., C] = x / sqrt(mean(x^2) + epsilon) * (gamma + offset), over each group
// of as many channels as gamma has: one group for a norm of the whole row, H
// groups for a norm of each head [.., H D] with gamma [D]. An offset of 1 is
// for models whose gamma begins at 0 (Gemma).
// InvalidArgument: C is no multiple of gamma's size.
absl::StatusOr<Tensor> RmsNorm(Engine& engine, const Tensor& x,
                               Parameter& gamma, float epsilon,
                               float offset = 0);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_RMS_NORM_H_
