#include "models/mistral/mistral_config.h"

#include "models/size_limits.h"
#include "nlohmann/json.hpp"

namespace castor::models {

MistralConfig::MistralConfig() {
  intermediate_size = 14336;
  num_key_value_heads = 8;
  max_position_embeddings = 131072;
}

void MistralConfig::ReadOwn(JsonReader& reader) {
  IntOrNull(reader, "sliding_window", &sliding_window, kMaxPositions);
}

OrderedJson MistralConfig::OwnToJson() const {
  return {{"sliding_window",
           sliding_window > 0 ? OrderedJson(sliding_window) : OrderedJson()}};
}

void MistralConfig::AddTo(DecoderSizes* sizes) const {
  sizes->windows.assign(num_hidden_layers, sliding_window);
}

}  // namespace castor::models
