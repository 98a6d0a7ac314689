#include "models/llama/llama_family.h"

#include <memory>

#include "models/llama/llama_config.h"

namespace castor::models {

LlamaFamily::LlamaFamily()
    : DecoderFamily("llama", "LlamaForCausalLM",
                    []() -> std::shared_ptr<DecoderConfig> {
                      return std::make_shared<LlamaConfig>();
                    },
                    {"attention_bias", "mlp_bias"}) {}

}  // namespace castor::models
