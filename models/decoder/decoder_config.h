// The keys that the configurations of Llama and its relatives share, under
// Hugging Face's own names (transformers, LlamaConfig).
#ifndef CASTOR_MODELS_DECODER_DECODER_CONFIG_H_
#define CASTOR_MODELS_DECODER_DECODER_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "models/decoder/decoder_sizes.h"
#include "models/rope/rope.h"
#include "run/config/model_config.h"

namespace castor::models {

// Defaults are Hugging Face's for Llama; a family that has others says so in
// its constructor. Member names are the JSON keys.
struct DecoderConfig : public Architecture {
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

  // Reads all of it and the family's own keys, from any object that has them,
  // and checks it. Errors go into the reader's report.
  void Read(JsonReader& reader);
  // Reads attention_dropout into `given`, if it is there.
  static void ReadDropout(JsonReader& reader, OrderedJson* given);

  // What its modules are made of.
  DecoderSizes Sizes() const;

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

 private:
  // The family's own keys, and what they make of the sizes.
  virtual void ReadOwn(JsonReader& reader) = 0;
  virtual OrderedJson OwnToJson() const = 0;
  virtual void AddTo(DecoderSizes* sizes) const = 0;
};

// Like reader.Int, but that null is 0.
void IntOrNull(JsonReader& reader, absl::string_view key, int64_t* out,
               int64_t max);

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_DECODER_CONFIG_H_
