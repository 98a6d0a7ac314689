#include "models/mistral/mistral.h"

#include "models/decoder/decoder_family.h"
#include "models/size_limits.h"

namespace castor::models {

const Family& MistralFamily() {
  static const DecoderFamily family(
      {.name = "mistral",
       .hf_class = "MistralForCausalLM",
       .set_defaults =
           [](DecoderConfig* config) {
             config->intermediate_size = 14336;
             config->num_key_value_heads = 8;
             config->max_position_embeddings = 131072;
             config->sliding_window = 4096;
           },
       .own_keys = {{"sliding_window",
                     &DecoderConfig::sliding_window,
                     {.min = 1, .max = kMaxPositions},
                     IfNull::kZero}}});
  return family;
}

}  // namespace castor::models
