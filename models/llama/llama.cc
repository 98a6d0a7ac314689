#include "models/llama/llama.h"

#include "models/decoder/decoder_family.h"

namespace castor::models {

const Family& LlamaFamily() {
  static const DecoderFamily family(
      {.name = "llama",
       .hf_class = "LlamaForCausalLM",
       .own_keys = {{"attention_bias", &DecoderConfig::attention_bias},
                    {"mlp_bias", &DecoderConfig::mlp_bias}},
       .whole_heads = true});
  return family;
}

}  // namespace castor::models
