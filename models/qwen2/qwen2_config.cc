#include "models/qwen2/qwen2_config.h"

#include "nlohmann/json.hpp"

namespace castor::models {

Qwen2Config::Qwen2Config() {
  vocab_size = 151936;
  intermediate_size = 22016;
  num_key_value_heads = 32;
  max_position_embeddings = 32768;
}

void Qwen2Config::ReadOwn(JsonReader& reader) {
  windows.Read(reader, num_hidden_layers);
}

OrderedJson Qwen2Config::OwnToJson() const { return windows.ToJson(); }

void Qwen2Config::AddTo(DecoderSizes* sizes) const {
  sizes->qkv_bias = true;
  sizes->windows = windows.windows();
}

}  // namespace castor::models
