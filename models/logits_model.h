// A model whose head gives a logit for each thing that it may say.
#ifndef CASTOR_MODELS_LOGITS_MODEL_H_
#define CASTOR_MODELS_LOGITS_MODEL_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/tensor.h"
#include "runtime/nn/model.h"

namespace castor::models {

class LogitsModel : public Model {
 public:
  // The logits [B, T, V] at each of `tokens` [B, T], V the labels that a target
  // may have. Training needs none of them in memory: Loss does without.
  virtual absl::StatusOr<Tensor> Logits(Engine& engine,
                                        const Tensor& tokens) = 0;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_LOGITS_MODEL_H_
