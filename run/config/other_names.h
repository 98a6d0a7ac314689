// Two tables for the messages about unknown keys: the names that other
// trainers' configurations (those of transformers and TRL, DeepSpeed,
// Colossal-AI, FlagAI, Axolotl, LLaMA-Factory, PyTorch's recipes) have for
// Castor's keys, and their keys that mean nothing here.
#ifndef CASTOR_RUN_CONFIG_OTHER_NAMES_H_
#define CASTOR_RUN_CONFIG_OTHER_NAMES_H_

#include "absl/types/span.h"
#include "base/json_report.h"

namespace castor {

absl::Span<const OtherName> OtherNames();

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_OTHER_NAMES_H_
