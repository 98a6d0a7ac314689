// What the families of causal language models have in common: they end in
// hidden states, to which a head is applied that has a row for each token.
#ifndef CASTOR_MODELS_CAUSAL_LM_H_
#define CASTOR_MODELS_CAUSAL_LM_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/tensor.h"
#include "runtime/nn/model.h"

namespace castor::models {

class CausalLm : public Model {
 public:
  // What the head is applied to, [B, T, C], of tokens [B, T].
  virtual absl::StatusOr<Tensor> Hidden(Engine& engine,
                                        const Tensor& tokens) = 0;
  // The head [V, C].
  virtual Parameter& head_weight() const = 0;

  // The logits [B, T, V] of the token after each of `tokens` [B, T]. Training
  // needs none of them in memory: Loss does without.
  absl::StatusOr<Tensor> Logits(Engine& engine, const Tensor& tokens);

  absl::StatusOr<Tensor> NextLogits(Engine& engine, const Tensor& tokens) final;

  absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                              const Tensor& targets) final;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_CAUSAL_LM_H_
