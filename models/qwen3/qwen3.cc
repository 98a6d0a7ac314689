#include "models/qwen3/qwen3.h"

#include "models/decoder/decoder_family.h"

namespace castor::models {

const Family& Qwen3Family() {
  static const DecoderFamily family(
      {.name = "qwen3",
       .hf_class = "Qwen3ForCausalLM",
       .set_defaults =
           [](DecoderConfig* config) {
             config->vocab_size = 151936;
             config->intermediate_size = 22016;
             config->num_key_value_heads = 32;
             config->head_dim = 128;
             config->max_position_embeddings = 32768;
           },
       .own_keys = {{"attention_bias", &DecoderConfig::attention_bias}},
       .has_layer_windows = true,
       .head_norms = true});
  return family;
}

}  // namespace castor::models
