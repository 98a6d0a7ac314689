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

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "models/causal_lm.h"
#include "models/family.h"
#include "run/config/model_config.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/activation.h"

namespace castor::models {

// Defaults are Hugging Face's (transformers, GPT2Config). Member names are the
// JSON keys.
struct Gpt2Config final : public Architecture {
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_embd = 768;  // a multiple of n_head
  int64_t n_inner = 0;   // the MLP's width; JSON null or 0: 4 * n_embd
  int64_t n_positions = 1024;
  int64_t vocab_size = 50257;
  // The MLP's; "gelu_pytorch_tanh" is the same function, read as this name.
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;  // dropout of both residual branches, in [0, 1)
  double embd_pdrop = 0.1;   // dropout of the embeddings' sum
  double attn_pdrop = 0.1;   // dropout of the attention's probabilities
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;  // standard deviation of initial weights
  bool tie_word_embeddings = true;

  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }

  // Reads all of it by these names, from any object that has them, and checks
  // it. Errors go into the reader's report.
  void Read(JsonReader& reader);

  absl::string_view family() const override { return "gpt2"; }
  int64_t vocabulary() const override { return vocab_size; }
  int64_t positions() const override { return n_positions; }
  absl::string_view positions_key() const override { return "n_positions"; }
  double elements_per_token() const override;
  std::string Describe() const override;
  OrderedJson ToJson() const override;
  OrderedJson Identity() const override;
};

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

// Hugging Face's files: transformers' GPT2Config and GPT2LMHeadModel, and the
// names of GPT2Model, OpenAI's original among them, which lack the
// "transformer." in front.
const Family& Gpt2Family();

}  // namespace castor::models

#endif  // CASTOR_MODELS_GPT2_GPT2_H_
