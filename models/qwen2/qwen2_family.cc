#include "models/qwen2/qwen2_family.h"

#include <memory>

#include "models/qwen2/qwen2_config.h"

namespace castor::models {

Qwen2Family::Qwen2Family()
    : DecoderFamily("qwen2", "Qwen2ForCausalLM",
                    []() -> std::shared_ptr<DecoderConfig> {
                      return std::make_shared<Qwen2Config>();
                    },
                    {"use_sliding_window", "sliding_window",
                     "max_window_layers", "layer_types"}) {}

}  // namespace castor::models
