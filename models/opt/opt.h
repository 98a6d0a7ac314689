// OPT as Hugging Face's OPTForCausalLM defines it: learned positions whose
// table begins two rows before the first, blocks with a norm before each branch
// (in the 350M after each sum), projections where the embedding is narrower
// than the blocks, the head tied to the token embedding unless the config says
// otherwise.
//
// Source: Zhang et al., "OPT: open pre-trained transformer language models",
// 2022, and transformers' modeling_opt.py. There the padding token's row of the
// embedding gets no gradient as an input; here no token is special, which is
// the same where no text has it.
#ifndef CASTOR_MODELS_OPT_OPT_H_
#define CASTOR_MODELS_OPT_OPT_H_

#include <optional>
#include <string>
#include <vector>

#include "models/causal_lm.h"
#include "models/opt/opt_config.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/activation.h"

namespace castor::models {

class Opt final : public CausalLm {
 public:
  // Inside a ZeroInit scope; `config` must have passed its checks.
  explicit Opt(const OptConfig& config);

  absl::StatusOr<Tensor> Hidden(Engine& engine, const Tensor& tokens) override;
  Parameter& head_weight() const override { return *head_weight_; }

 private:
  // x [B, T, C] -> [B, T, C].
  class Block {
   public:
    Block(const OptConfig& config, std::string name);
    absl::StatusOr<Tensor> operator()(Engine& engine, const Tensor& x) const;

   private:
    // x + attention(x), and x + MLP(x), with the norms.
    absl::StatusOr<Tensor> Attend(Engine& engine, const Tensor& x) const;
    absl::StatusOr<Tensor> Feed(Engine& engine, const Tensor& x) const;
    // Dropout(y) + x, normalised where norms come after.
    absl::StatusOr<Tensor> AddTo(Engine& engine, const Tensor& x, Tensor y,
                                 const nn::LayerNorm& norm,
                                 const std::string& site) const;

    std::string name_;
    bool norm_before_;
    int64_t heads_;
    ops::Activation activation_;
    float dropout_, attention_dropout_;
    nn::LayerNorm self_attn_layer_norm_;
    nn::Linear q_proj_, k_proj_, v_proj_, out_proj_;
    nn::LayerNorm final_layer_norm_;
    nn::Linear fc1_, fc2_;
  };

  nn::Embedding embed_tokens_;
  nn::PositionEmbedding embed_positions_;
  std::optional<nn::Linear> project_in_;
  std::vector<Block> layers_;
  std::optional<nn::LayerNorm> final_layer_norm_;
  std::optional<nn::Linear> project_out_;
  Parameter* head_weight_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_OPT_OPT_H_
