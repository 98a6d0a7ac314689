// Activation functions, alone or as a gate.
#ifndef CASTOR_RUNTIME_OPS_ACTIVATION_H_
#define CASTOR_RUNTIME_OPS_ACTIVATION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/activation/kind.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

using kernels::Activation;

// y = kind(x), elementwise. `site` names it in traces. Backward needs x; of
// kRelu it needs y instead, which the next operator mostly keeps anyway.
absl::StatusOr<Tensor> Activate(Engine& engine, const Tensor& x,
                                Activation kind, absl::string_view site);

// y = kind(gate) * up, elementwise.
// InvalidArgument: gate and up are of different shapes.
absl::StatusOr<Tensor> ActivateGated(Engine& engine, const Tensor& gate,
                                     const Tensor& up, Activation kind,
                                     absl::string_view site);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_ACTIVATION_H_
