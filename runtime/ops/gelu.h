// The GELU activation.
#ifndef CASTOR_RUNTIME_OPS_GELU_H_
#define CASTOR_RUNTIME_OPS_GELU_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// y = gelu(x), elementwise, in the tanh form. `site` names it in traces.
absl::StatusOr<Tensor> Gelu(Engine& engine, const Tensor& x,
                            absl::string_view site);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_GELU_H_
