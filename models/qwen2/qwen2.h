// Qwen 2 and 2.5 on the shared decoder, as transformers' Qwen2Config and
// Qwen2ForCausalLM define it: the maps to queries, keys and values have biases,
// the one from heads has none.
#ifndef CASTOR_MODELS_QWEN2_QWEN2_H_
#define CASTOR_MODELS_QWEN2_QWEN2_H_

#include "models/family.h"

namespace castor::models {

const Family& Qwen2Family();

}  // namespace castor::models

#endif  // CASTOR_MODELS_QWEN2_QWEN2_H_
