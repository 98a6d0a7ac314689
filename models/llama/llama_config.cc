#include "models/llama/llama_config.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace castor::models {

void LlamaConfig::ReadOwn(JsonReader& reader) {
  reader.Bool("attention_bias", &attention_bias);
  reader.Bool("mlp_bias", &mlp_bias);
  if (hidden_size % num_attention_heads != 0) {
    reader.Fail("hidden_size",
                absl::StrCat(hidden_size, " is not a multiple of ",
                             reader.PathOf("num_attention_heads"), " (",
                             num_attention_heads, ")"),
                {reader.PathOf("num_attention_heads")});
  }
}

OrderedJson LlamaConfig::OwnToJson() const {
  return {{"attention_bias", attention_bias}, {"mlp_bias", mlp_bias}};
}

void LlamaConfig::AddTo(DecoderSizes* sizes) const {
  sizes->qkv_bias = sizes->output_bias = attention_bias;
  sizes->mlp_bias = mlp_bias;
}

}  // namespace castor::models
