#include "models/bert/bert.h"

#include "models/encoder/encoder_family.h"

namespace castor::models {

const Family& BertFamily() {
  static const EncoderFamily family({.name = "bert", .hf_prefix = "Bert"});
  return family;
}

}  // namespace castor::models
