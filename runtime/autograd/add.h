// Sums of tensors.
#ifndef CASTOR_RUNTIME_AUTOGRAD_ADD_H_
#define CASTOR_RUNTIME_AUTOGRAD_ADD_H_

#include "absl/status/status.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// sum += addend, in place when nobody else holds sum's or addend's storage,
// else into a new tensor, which sum then is.
absl::Status AddInto(Engine& engine, Tensor& sum, Tensor addend);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_AUTOGRAD_ADD_H_
