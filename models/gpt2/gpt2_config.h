// The sizes and rates of a GPT-2, under Hugging Face's own key names
// (transformers, GPT2Config).
#ifndef CASTOR_MODELS_GPT2_GPT2_CONFIG_H_
#define CASTOR_MODELS_GPT2_GPT2_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "run/config/model_config.h"

namespace castor::models {

// Defaults are Hugging Face's. Member names are the JSON keys.
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
  // Reads the three dropouts into `given`, those that are there.
  static void ReadDropouts(JsonReader& reader, OrderedJson* given);
  // All keys but the dropouts.
  static absl::Span<const absl::string_view> keys_but_dropouts();

  absl::string_view family() const override { return "gpt2"; }
  int64_t vocabulary() const override { return vocab_size; }
  int64_t positions() const override { return n_positions; }
  absl::string_view positions_key() const override { return "n_positions"; }
  double elements_per_token() const override;
  std::string Describe() const override;
  OrderedJson ToJson() const override;
  OrderedJson Identity() const override;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_GPT2_GPT2_CONFIG_H_
