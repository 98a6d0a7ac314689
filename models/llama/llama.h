// Llama of version 1 to 3 on the shared decoder, as transformers' LlamaConfig
// and LlamaForCausalLM define it.
#ifndef CASTOR_MODELS_LLAMA_LLAMA_H_
#define CASTOR_MODELS_LLAMA_LLAMA_H_

#include "models/family.h"

namespace castor::models {

const Family& LlamaFamily();

}  // namespace castor::models

#endif  // CASTOR_MODELS_LLAMA_LLAMA_H_
