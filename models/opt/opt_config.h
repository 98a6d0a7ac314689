// The sizes and rates of an OPT, under Hugging Face's own key names
// (transformers, OPTConfig).
#ifndef CASTOR_MODELS_OPT_OPT_CONFIG_H_
#define CASTOR_MODELS_OPT_OPT_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "run/config/model_config.h"

namespace castor::models {

// Defaults are Hugging Face's. Member names are the JSON keys.
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
  // Reads the two dropouts into `given`, those that are there.
  static void ReadDropouts(JsonReader& reader, OrderedJson* given);
  // All keys but the dropouts.
  static absl::Span<const absl::string_view> keys_but_dropouts();

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

}  // namespace castor::models

#endif  // CASTOR_MODELS_OPT_OPT_CONFIG_H_
