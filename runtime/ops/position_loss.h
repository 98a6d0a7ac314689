// The loss of a model that says a position of each document.
#ifndef CASTOR_RUNTIME_OPS_POSITION_LOSS_H_
#define CASTOR_RUNTIME_OPS_POSITION_LOSS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

struct PositionLossOptions {
  int64_t column = 0;  // of the logits
  float scale = 1;     // of the loss
  int64_t term = 0;    // of the model's loss (Model::Losses)
};

// loss [1] (fp32), where nothing is trained [2], = `scale` times the
// cross-entropy of one column of logits [B, T, K], taken over the positions of
// each document (Engine::documents), summed over the documents. The target of a
// document's first token (int32 [B, T]) is the position that is right, counted
// from there; with -100 the document takes no part, and all other tokens have
// that. Its backward starts from Engine::loss_gradient(term), as HeadLoss's
// does. Where nothing is trained, the second element's bytes are an int32: of
// how many documents that take part no position has a greater logit than the
// target. InvalidArgument: targets or a column of another shape.
absl::StatusOr<Tensor> PositionLoss(Engine& engine, const Tensor& logits,
                                    const Tensor& targets,
                                    const PositionLossOptions& options,
                                    const std::string& name);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_POSITION_LOSS_H_
