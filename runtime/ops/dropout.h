// Dropout, alone or with the sum of a residual connection.
#ifndef CASTOR_RUNTIME_OPS_DROPOUT_H_
#define CASTOR_RUNTIME_OPS_DROPOUT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// y = dropout(x) + residual; `residual` may be empty. The mask is keyed by
// `site`, which must be unique in the model, and the micro batch. Outside of
// training p counts as 0. InvalidArgument: the residual is of another size.
absl::StatusOr<Tensor> Dropout(Engine& engine, const Tensor& x,
                               const Tensor& residual, float p,
                               absl::string_view site);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_DROPOUT_H_
