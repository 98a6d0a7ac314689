// The last position of each sequence.
#ifndef CASTOR_RUNTIME_OPS_LAST_POSITION_H_
#define CASTOR_RUNTIME_OPS_LAST_POSITION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// y [B, C]: the last of the T positions of x [B, T, C].
// `site` names it in traces. It has no gradient: what generates does not train.
// InvalidArgument: another rank, no position, or a gradient is wanted.
absl::StatusOr<Tensor> LastPosition(Engine& engine, const Tensor& x,
                                    absl::string_view site);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_LAST_POSITION_H_
