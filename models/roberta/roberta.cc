#include "models/roberta/roberta.h"

#include "models/encoder/encoder_family.h"

namespace castor::models {

const Family& RobertaFamily() {
  static const EncoderFamily family(
      {.name = "roberta", .hf_prefix = "Roberta", .is_roberta = true});
  return family;
}

}  // namespace castor::models
