// Qwen 3 without experts on the shared decoder, as transformers' Qwen3Config
// and Qwen3ForCausalLM define it: each head's query and key are normed.
#ifndef CASTOR_MODELS_QWEN3_QWEN3_H_
#define CASTOR_MODELS_QWEN3_QWEN3_H_

#include "models/family.h"

namespace castor::models {

const Family& Qwen3Family();

}  // namespace castor::models

#endif  // CASTOR_MODELS_QWEN3_QWEN3_H_
