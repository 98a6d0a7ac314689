// Llama as a row of the table of families.
#ifndef CASTOR_MODELS_LLAMA_LLAMA_FAMILY_H_
#define CASTOR_MODELS_LLAMA_LLAMA_FAMILY_H_

#include "models/decoder/decoder_family.h"

namespace castor::models {

// Hugging Face's files: transformers' LlamaConfig and LlamaForCausalLM, and the
// names of LlamaModel, which lack the "model." in front.
class LlamaFamily final : public DecoderFamily {
 public:
  LlamaFamily();
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_LLAMA_LLAMA_FAMILY_H_
