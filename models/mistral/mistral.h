// Mistral on the shared decoder, as transformers' MistralConfig and
// MistralForCausalLM define it: every layer looks through a sliding window.
#ifndef CASTOR_MODELS_MISTRAL_MISTRAL_H_
#define CASTOR_MODELS_MISTRAL_MISTRAL_H_

#include "models/family.h"

namespace castor::models {

const Family& MistralFamily();

}  // namespace castor::models

#endif  // CASTOR_MODELS_MISTRAL_MISTRAL_H_
