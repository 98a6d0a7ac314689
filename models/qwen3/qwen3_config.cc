#include "models/qwen3/qwen3_config.h"

#include "nlohmann/json.hpp"

namespace castor::models {

Qwen3Config::Qwen3Config() {
  vocab_size = 151936;
  intermediate_size = 22016;
  num_key_value_heads = 32;
  head_dim = 128;
  max_position_embeddings = 32768;
}

void Qwen3Config::ReadOwn(JsonReader& reader) {
  reader.Bool("attention_bias", &attention_bias);
  windows.Read(reader, num_hidden_layers);
}

OrderedJson Qwen3Config::OwnToJson() const {
  OrderedJson json = {{"attention_bias", attention_bias}};
  json.update(windows.ToJson());
  return json;
}

void Qwen3Config::AddTo(DecoderSizes* sizes) const {
  sizes->qkv_bias = sizes->output_bias = attention_bias;
  sizes->head_norms = true;
  sizes->windows = windows.windows();
}

}  // namespace castor::models
