// Qwen 3 as a row of the table of families.
#ifndef CASTOR_MODELS_QWEN3_QWEN3_FAMILY_H_
#define CASTOR_MODELS_QWEN3_QWEN3_FAMILY_H_

#include "models/decoder/decoder_family.h"

namespace castor::models {

// Hugging Face's files: transformers' Qwen3Config and Qwen3ForCausalLM, and the
// names of Qwen3Model, which lack the "model." in front.
class Qwen3Family final : public DecoderFamily {
 public:
  Qwen3Family();
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_QWEN3_QWEN3_FAMILY_H_
