// Affine maps.
#ifndef CASTOR_RUNTIME_OPS_LINEAR_H_
#define CASTOR_RUNTIME_OPS_LINEAR_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

enum class WeightLayout {
  kInOut,  // [I, O]: GPT-2's Conv1D
  kOutIn,  // [O, I]: torch.nn.Linear
};

// y [.., O] = x [.., I] w (+ bias [O]). `bias` may be null.
// InvalidArgument: w or bias of another shape.
absl::StatusOr<Tensor> Linear(Engine& engine, const Tensor& x, Parameter& w,
                              Parameter* bias, WeightLayout layout);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_LINEAR_H_
