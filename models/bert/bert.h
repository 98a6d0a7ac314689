// BERT, on the shared encoder.
#ifndef CASTOR_MODELS_BERT_BERT_H_
#define CASTOR_MODELS_BERT_BERT_H_

#include "models/family.h"

namespace castor::models {

// Hugging Face's files: transformers' BertConfig and its classes with a head
// for masked words, for a sequence's label, for tokens' labels and for spans;
// and the names of BertModel, which lack the "bert." in front.
const Family& BertFamily();

}  // namespace castor::models

#endif  // CASTOR_MODELS_BERT_BERT_H_
