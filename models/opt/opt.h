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

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "models/causal_lm.h"
#include "models/family.h"
#include "run/config/model_config.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/activation.h"

namespace castor::models {

// Defaults are Hugging Face's (transformers, OPTConfig). Member names are the
// JSON keys.
struct OptConfig final : public Architecture {
  int64_t vocab_size = 50272;
  int64_t hidden_size = 768;  // a multiple of num_attention_heads
  int64_t num_hidden_layers = 12;
  int64_t ffn_dim = 3072;
  int64_t num_attention_heads = 12;
  int64_t max_position_embeddings = 2048;
  // The width of the token embedding and the head, between which and
  // hidden_size there are projections where they differ. JSON null:
  // hidden_size, which Read puts here.
  int64_t word_embed_proj_dim = 0;
  // False in the 350M alone: a norm follows each sum, and none the last layer.
  bool do_layer_norm_before = true;
  // Also "_remove_final_layer_norm": old checkpoints have none after the last
  // layer.
  bool remove_final_layer_norm = false;
  bool enable_bias = true;  // of all linear layers in the blocks
  std::string activation_function = "relu";
  double dropout = 0.1;            // of both residual branches, in [0, 1)
  double attention_dropout = 0.0;  // of the attention's probabilities
  double init_std = 0.02;          // standard deviation of initial weights
  bool tie_word_embeddings = true;

  bool has_projections() const { return word_embed_proj_dim != hidden_size; }
  bool has_final_norm() const {
    return do_layer_norm_before && !remove_final_layer_norm;
  }

  // Reads all of it by these names, from any object that has them, and checks
  // it. Errors go into the reader's report.
  void Read(JsonReader& reader);

  absl::string_view family() const override { return "opt"; }
  int64_t vocabulary() const override { return vocab_size; }
  int64_t positions() const override { return max_position_embeddings; }
  absl::string_view positions_key() const override {
    return "max_position_embeddings";
  }
  double elements_per_token() const override;
  std::string Describe() const override;
  OrderedJson ToJson() const override;
  OrderedJson Identity() const override;
};

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

// Hugging Face's files: transformers' OPTConfig and OPTForCausalLM, and the
// names of OPTModel, which lack the "model." in front.
const Family& OptFamily();

}  // namespace castor::models

#endif  // CASTOR_MODELS_OPT_OPT_H_
