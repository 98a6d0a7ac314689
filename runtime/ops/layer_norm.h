// Layer normalisation.
#ifndef CASTOR_RUNTIME_OPS_LAYER_NORM_H_
#define CASTOR_RUNTIME_OPS_LAYER_NORM_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// y [.., C] = layer norm of x [.., C]; gamma, beta [C].
// InvalidArgument: either is of another size.
absl::StatusOr<Tensor> LayerNorm(Engine& engine, const Tensor& x,
                                 Parameter& gamma, Parameter& beta,
                                 float epsilon);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_LAYER_NORM_H_
