// The language-model head with its loss.
#ifndef CASTOR_RUNTIME_OPS_HEAD_LOSS_H_
#define CASTOR_RUNTIME_OPS_HEAD_LOSS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// loss [1] (fp32), where nothing is trained [2], = the cross-entropy of x [..,
// C] w [V, C]^T (+ bias [V]) against targets (int32, one per row), summed over
// the rows; a row whose target is -100 takes no part. Its backward starts from
// Engine::loss_gradient(term), the gradient of each row's loss, where it is
// that term of the model's loss (Model::Losses). Where nothing is trained, the
// second element's bytes are an int32: how many rows that take part have no
// greater logit than their target's. InvalidArgument: w, bias or targets of
// another shape.
absl::StatusOr<Tensor> HeadLoss(Engine& engine, const Tensor& x, Parameter& w,
                                const Tensor& targets,
                                Parameter* bias = nullptr, int64_t term = 0);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_HEAD_LOSS_H_
