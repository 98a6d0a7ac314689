// RoBERTa, on the shared encoder.
#ifndef CASTOR_MODELS_ROBERTA_ROBERTA_H_
#define CASTOR_MODELS_ROBERTA_ROBERTA_H_

#include "models/family.h"

namespace castor::models {

// Hugging Face's files: transformers' RobertaConfig and its classes with a head
// for masked words, for a sequence's label, for tokens' labels and for spans;
// and the names of RobertaModel, which lack the "roberta." in front.
const Family& RobertaFamily();

}  // namespace castor::models

#endif  // CASTOR_MODELS_ROBERTA_ROBERTA_H_
