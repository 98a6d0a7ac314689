// What the trainer asks of a model.
#ifndef CASTOR_RUNTIME_NN_MODEL_H_
#define CASTOR_RUNTIME_NN_MODEL_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/tensor.h"

namespace castor {

class Model {
 public:
  virtual ~Model() = default;

  // The loss [1] of a micro batch, in fp32: the sum over its labelled tokens,
  // as ops::HeadLoss gives it. Sums of micro batches are added up and divided
  // by the labelled tokens of the whole batch (Engine::loss_gradient), so a
  // token weighs the same wherever it is. Tokens and targets are [B, T], int32;
  // a token whose target is -100 is not labelled. Where nothing is trained it
  // may be [2], as ops::HeadLoss's is. Which operators run, with which sizes,
  // may depend on shapes and on engine.training() alone, never on values.
  virtual absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                                      const Tensor& targets) = 0;

  // The logits [1, V], in the model's type, of the token that follows the last
  // of `tokens` [1, T], which follow what the engine's cache has
  // (Engine::cache). Unimplemented: the model generates nothing.
  virtual absl::StatusOr<Tensor> NextLogits(Engine&, const Tensor&) {
    return absl::UnimplementedError("this model generates no text");
  }
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_NN_MODEL_H_
