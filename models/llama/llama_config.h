// The sizes and rates of a Llama of version 1 to 3, under Hugging Face's own
// key names (transformers, LlamaConfig).
#ifndef CASTOR_MODELS_LLAMA_LLAMA_CONFIG_H_
#define CASTOR_MODELS_LLAMA_LLAMA_CONFIG_H_

#include "models/decoder/decoder_config.h"

namespace castor::models {

// hidden_size is a multiple of num_attention_heads, even where head_dim is
// given, as transformers has it.
struct LlamaConfig final : public DecoderConfig {
  bool attention_bias = false;  // of the maps to and from heads
  bool mlp_bias = false;

  absl::string_view family() const override { return "llama"; }

 private:
  void ReadOwn(JsonReader& reader) override;
  OrderedJson OwnToJson() const override;
  void AddTo(DecoderSizes* sizes) const override;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_LLAMA_LLAMA_CONFIG_H_
