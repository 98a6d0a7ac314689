// Qwen 2 as a row of the table of families.
#ifndef CASTOR_MODELS_QWEN2_QWEN2_FAMILY_H_
#define CASTOR_MODELS_QWEN2_QWEN2_FAMILY_H_

#include "models/decoder/decoder_family.h"

namespace castor::models {

// Hugging Face's files: transformers' Qwen2Config and Qwen2ForCausalLM, and the
// names of Qwen2Model, which lack the "model." in front.
class Qwen2Family final : public DecoderFamily {
 public:
  Qwen2Family();
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_QWEN2_QWEN2_FAMILY_H_
