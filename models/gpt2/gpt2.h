// GPT-2 as Hugging Face's GPT2LMHeadModel defines it: pre-norm blocks, learned
// positions, GELU, causal attention, the head tied to the token embedding
// unless the config says otherwise.
//
// Source: Radford et al., "Language models are unsupervised multitask
// learners", 2019; transformers' modeling_gpt2.py for names, weight layout
// ([in, out]) and initial values (residual projections scaled by 1 / sqrt(2
// n_layer)).
#ifndef CASTOR_MODELS_GPT2_GPT2_H_
#define CASTOR_MODELS_GPT2_GPT2_H_

#include <string>
#include <vector>

#include "models/causal_lm.h"
#include "models/gpt2/gpt2_config.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/activation.h"

namespace castor::models {

class Gpt2 final : public CausalLm {
 public:
  // Inside a ZeroInit scope; `config` must have passed its checks.
  explicit Gpt2(const Gpt2Config& config);

  absl::StatusOr<Tensor> Hidden(Engine& engine, const Tensor& tokens) override;
  Parameter& head_weight() const override { return *head_weight_; }

 private:
  // x [B, T, C] -> [B, T, C].
  class Block {
   public:
    Block(const Gpt2Config& config, std::string name);
    absl::StatusOr<Tensor> operator()(Engine& engine, const Tensor& x) const;

   private:
    std::string name_;
    int64_t heads_;
    ops::Activation activation_;
    float attention_dropout_, residual_dropout_;
    nn::LayerNorm ln_1_;
    nn::Linear c_attn_, attn_c_proj_;
    nn::LayerNorm ln_2_;
    nn::Linear c_fc_, mlp_c_proj_;
  };

  Gpt2Config config_;
  nn::Embedding wte_;
  nn::PositionEmbedding wpe_;
  std::vector<Block> blocks_;
  nn::LayerNorm ln_f_;
  Parameter* head_weight_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_GPT2_GPT2_H_
