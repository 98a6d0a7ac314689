// Mistral as a row of the table of families.
#ifndef CASTOR_MODELS_MISTRAL_MISTRAL_FAMILY_H_
#define CASTOR_MODELS_MISTRAL_MISTRAL_FAMILY_H_

#include "models/decoder/decoder_family.h"

namespace castor::models {

// Hugging Face's files: transformers' MistralConfig and MistralForCausalLM, and
// the names of MistralModel, which lack the "model." in front.
class MistralFamily final : public DecoderFamily {
 public:
  MistralFamily();
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_MISTRAL_MISTRAL_FAMILY_H_
