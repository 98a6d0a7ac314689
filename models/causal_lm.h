// The common part of the families of causal language models: they end in hidden
// states, to which a head is applied that has a row for each token.
#ifndef CASTOR_MODELS_CAUSAL_LM_H_
#define CASTOR_MODELS_CAUSAL_LM_H_

#include "absl/status/statusor.h"
#include "models/logits_model.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/tensor.h"

namespace castor::models {

class CausalLm : public LogitsModel {
 public:
  // Returns the hidden states [B, T, C] of tokens [B, T], to which the head is
  // applied.
  virtual absl::StatusOr<Tensor> Hidden(Engine& engine,
                                        const Tensor& tokens) = 0;
  // The head [V, C].
  virtual Parameter& head_weight() const = 0;

  // The logits of the token after each of `tokens`.
  absl::StatusOr<Tensor> Logits(Engine& engine, const Tensor& tokens) final;

  absl::StatusOr<Tensor> NextLogits(Engine& engine, const Tensor& tokens) final;

  absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                              const Tensor& targets) final;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_CAUSAL_LM_H_
