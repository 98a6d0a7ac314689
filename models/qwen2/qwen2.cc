#include "models/qwen2/qwen2.h"

#include "models/decoder/decoder_family.h"

namespace castor::models {

const Family& Qwen2Family() {
  static const DecoderFamily family({.name = "qwen2",
                                     .hf_class = "Qwen2ForCausalLM",
                                     .set_defaults =
                                         [](DecoderConfig* config) {
                                           config->vocab_size = 151936;
                                           config->intermediate_size = 22016;
                                           config->num_key_value_heads = 32;
                                           config->max_position_embeddings =
                                               32768;
                                         },
                                     .has_layer_windows = true,
                                     .qkv_bias = true});
  return family;
}

}  // namespace castor::models
