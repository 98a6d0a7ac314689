// transformers' names of activation functions (ACT2FN).
#ifndef CASTOR_MODELS_ACTIVATION_NAMES_H_
#define CASTOR_MODELS_ACTIVATION_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "runtime/ops/activation.h"

namespace castor::models {

// Reads the name of a function that there is. Another one is an error in the
// reader's report, which lists those, and leaves `name` as it was.
void ReadActivation(JsonReader& reader, absl::string_view key,
                    std::string* name);

// The function of a name that ReadActivation takes.
ops::Activation ActivationNamed(absl::string_view name);

}  // namespace castor::models

#endif  // CASTOR_MODELS_ACTIVATION_NAMES_H_
