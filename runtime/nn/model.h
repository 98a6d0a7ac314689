// The interface by which the trainer runs a model.
#ifndef CASTOR_RUNTIME_NN_MODEL_H_
#define CASTOR_RUNTIME_NN_MODEL_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
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
  // A model whose loss has several terms overrides Losses instead; for it this
  // returns Unimplemented.
  virtual absl::StatusOr<Tensor> Loss(Engine&, const Tensor& /*tokens*/,
                                      const Tensor& /*targets*/) {
    return absl::UnimplementedError("this model's loss has several terms");
  }

  // The terms of a loss that is the sum of several means: one for each of
  // `targets`, each as Loss's. A term's sums of micro batches are divided by
  // its own labelled tokens of the whole batch (Engine::loss_gradient(term)).
  virtual absl::StatusOr<std::vector<Tensor>> Losses(
      Engine& engine, const Tensor& tokens, absl::Span<const Tensor> targets) {
    if (targets.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a model whose loss is one mean got targets of ", targets.size()));
    }
    absl::StatusOr<Tensor> loss = Loss(engine, tokens, targets[0]);
    if (!loss.ok()) return loss.status();
    return std::vector<Tensor>{*std::move(loss)};
  }

  // The logits [1, V], in the model's type, of the token that follows the last
  // of `tokens` [1, T], which follow what the engine's cache has
  // (Engine::cache). Unimplemented: the model generates nothing.
  virtual absl::StatusOr<Tensor> NextLogits(Engine&, const Tensor&) {
    return absl::UnimplementedError("this model generates no text");
  }
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_NN_MODEL_H_
