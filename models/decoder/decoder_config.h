// The configuration of Llama and its relatives, under Hugging Face's own names
// (transformers, LlamaConfig): the keys that they share, and those that only
// some of them have.
#ifndef CASTOR_MODELS_DECODER_DECODER_CONFIG_H_
#define CASTOR_MODELS_DECODER_DECODER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "models/config_keys.h"
#include "models/decoder/decoder_sizes.h"
#include "models/decoder/layer_windows.h"
#include "models/rope/rope.h"
#include "run/config/model_config.h"

namespace castor::models {

struct DecoderConfig;

// How a family differs from Llama.
struct DecoderKind {
  absl::string_view name;      // of the family
  absl::string_view hf_class;  // transformers' class of the model with its head
  // Sets the members whose defaults are not Llama's.
  void (*set_defaults)(DecoderConfig* config) = nullptr;
  // The keys that it has besides the shared ones.
  std::vector<ConfigKey<DecoderConfig>> own_keys = {};
  // If true, hidden_size must be a multiple of num_attention_heads, even where
  // head_dim is given.
  bool whole_heads = false;
  bool has_layer_windows = false;  // Qwen's four keys (layer_windows.h)
  bool qkv_bias = false;    // the maps to queries, keys and values have biases
  bool head_norms = false;  // each head's query and key are normed
};

// Defaults are Hugging Face's for Llama. Member names are the JSON keys.
struct DecoderConfig final : public Architecture {
  // `kind` outlives the configuration.
  explicit DecoderConfig(const DecoderKind* kind);

  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  // JSON null: num_attention_heads, of which it is a divisor. Read puts the
  // number in effect here, as in head_dim.
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  // even; null: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;  // standard deviation of initial weights
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  Rope rope;  // "rope_parameters", or what stood for it in transformers 4
  double attention_dropout = 0;  // in [0, 1)

  // Only some families have these keys; without them they stay as they are.
  bool attention_bias = false;  // of the maps to and from heads
  bool mlp_bias = false;
  // In every layer, position i sees those after i - sliding_window, up to
  // itself. JSON null, 0 here: it sees all up to itself.
  int64_t sliding_window = 0;
  LayerWindows layer_windows;

  // The keys that all families share, but for those of rotary positions.
  static absl::Span<const ConfigKey<DecoderConfig>> shared_keys();

  // Reads all of it and the family's own keys, from any object that has them,
  // and checks it. Errors go into the reader's report.
  void Read(JsonReader& reader);

  // The sizes of its modules.
  DecoderSizes Sizes() const;

  absl::string_view family() const override { return kind->name; }
  int64_t vocabulary() const override { return vocab_size; }
  // `dynamic` positions have no end.
  int64_t positions() const override;
  absl::string_view positions_key() const override {
    return "max_position_embeddings";
  }
  int64_t usual_positions() const override { return max_position_embeddings; }
  double elements_per_token() const override;
  std::string Describe() const override;
  OrderedJson ToJson() const override;
  OrderedJson Identity() const override;

  const DecoderKind* const kind;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_DECODER_CONFIG_H_
