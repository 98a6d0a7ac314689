// What the configurations of other trainers (those of transformers and TRL,
// DeepSpeed, Colossal-AI, FlagAI, Axolotl, LLaMA-Factory, PyTorch's recipes)
// call what Castor's have under another name, and what of theirs means nothing
// here, for the messages about unknown keys.
#ifndef CASTOR_RUN_CONFIG_OTHER_NAMES_H_
#define CASTOR_RUN_CONFIG_OTHER_NAMES_H_

#include "absl/types/span.h"
#include "base/json_report.h"

namespace castor {

absl::Span<const OtherName> OtherNames();

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_OTHER_NAMES_H_
