#include "models/qwen3/qwen3_family.h"

#include <memory>

#include "models/qwen3/qwen3_config.h"

namespace castor::models {

Qwen3Family::Qwen3Family()
    : DecoderFamily("qwen3", "Qwen3ForCausalLM",
                    []() -> std::shared_ptr<DecoderConfig> {
                      return std::make_shared<Qwen3Config>();
                    },
                    {"attention_bias", "use_sliding_window", "sliding_window",
                     "max_window_layers", "layer_types"}) {}

}  // namespace castor::models
