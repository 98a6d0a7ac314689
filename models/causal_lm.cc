#include "models/causal_lm.h"

#include "base/status_macros.h"
#include "runtime/ops/head_loss.h"
#include "runtime/ops/last_position.h"
#include "runtime/ops/linear.h"

namespace castor::models {

absl::StatusOr<Tensor> CausalLm::Logits(Engine& engine, const Tensor& tokens) {
  CASTOR_ASSIGN_OR_RETURN(const Tensor hidden, Hidden(engine, tokens));
  return ops::Linear(engine, hidden, head_weight(), /*bias=*/nullptr,
                     ops::WeightLayout::kOutIn);
}

absl::StatusOr<Tensor> CausalLm::NextLogits(Engine& engine,
                                            const Tensor& tokens) {
  CASTOR_ASSIGN_OR_RETURN(Tensor last, Hidden(engine, tokens));
  CASTOR_ASSIGN_OR_RETURN(
      last,
      ops::LastPosition(engine, last, head_weight().name + "/last_position"));
  return ops::Linear(engine, last, head_weight(), /*bias=*/nullptr,
                     ops::WeightLayout::kOutIn);
}

absl::StatusOr<Tensor> CausalLm::Loss(Engine& engine, const Tensor& tokens,
                                      const Tensor& targets) {
  CASTOR_ASSIGN_OR_RETURN(const Tensor hidden, Hidden(engine, tokens));
  return ops::HeadLoss(engine, hidden, head_weight(), targets);
}

}  // namespace castor::models
