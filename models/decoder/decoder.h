// The body that Llama and its relatives share: token embeddings, pre-norm
// blocks of grouped attention under rotary positions and a gated MLP, a last
// norm, a head. Parameters have the names that transformers gives them in
// LlamaForCausalLM.
//
// Source: Touvron et al., "LLaMA", 2023, and transformers' modeling_llama.py.
#ifndef CASTOR_MODELS_DECODER_DECODER_H_
#define CASTOR_MODELS_DECODER_DECODER_H_

#include <string>
#include <vector>

#include "models/causal_lm.h"
#include "models/decoder/decoder_sizes.h"
#include "models/decoder/gated_mlp.h"
#include "models/decoder/grouped_attention.h"
#include "models/rope/rope_table.h"
#include "runtime/nn/modules.h"

namespace castor::models {

class Decoder final : public CausalLm {
 public:
  // Inside a ZeroInit scope; `sizes` must have passed their checks.
  explicit Decoder(const DecoderSizes& sizes);

  absl::StatusOr<Tensor> Hidden(Engine& engine, const Tensor& tokens) override;
  Parameter& head_weight() const override { return *head_weight_; }

 private:
  // x [B, T, C] -> [B, T, C].
  class Block {
   public:
    Block(const DecoderSizes& sizes, int64_t layer);
    absl::StatusOr<Tensor> operator()(Engine& engine, const Tensor& x,
                                      const ops::RotaryTable& rotary) const;

   private:
    std::string name_;
    nn::RmsNorm input_layernorm_;
    GroupedAttention self_attn_;
    nn::RmsNorm post_attention_layernorm_;
    GatedMlp mlp_;
  };

  nn::Embedding embed_tokens_;
  RopeTable rotary_emb_;
  std::vector<Block> layers_;
  nn::RmsNorm norm_;
  Parameter* head_weight_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_DECODER_H_
