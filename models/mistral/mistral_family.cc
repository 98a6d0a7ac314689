#include "models/mistral/mistral_family.h"

#include <memory>

#include "models/mistral/mistral_config.h"

namespace castor::models {

MistralFamily::MistralFamily()
    : DecoderFamily("mistral", "MistralForCausalLM",
                    []() -> std::shared_ptr<DecoderConfig> {
                      return std::make_shared<MistralConfig>();
                    },
                    {"sliding_window"}) {}

}  // namespace castor::models
