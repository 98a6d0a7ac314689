// What the configurations of other trainers (those of transformers and TRL,
// DeepSpeed, PyTorch's recipes) call what Castor's have under another name, for
// the messages about unknown keys.
#ifndef CASTOR_RUNTIME_CONFIG_OTHER_NAMES_H_
#define CASTOR_RUNTIME_CONFIG_OTHER_NAMES_H_

#include "absl/types/span.h"
#include "base/json_reader.h"

namespace castor {

absl::Span<const OtherName> OtherNames();

}  // namespace castor

#endif  // CASTOR_RUNTIME_CONFIG_OTHER_NAMES_H_
