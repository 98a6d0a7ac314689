// The tables of trainers' keys, a part of them in each.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_TRAINER_KEYS_H_
#define CASTOR_RUN_CONFIG_FOREIGN_TRAINER_KEYS_H_

#include "absl/types/span.h"
#include "run/config/foreign/foreign_key.h"

namespace castor {

// How a model is trained, and what is said and kept of it.
absl::Span<const ForeignKey> TrainingKeys();
// The model and the data.
absl::Span<const ForeignKey> InputKeys();
// Memory, numbers, ranks; and keys of still other systems.
absl::Span<const ForeignKey> MachineKeys();

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_FOREIGN_TRAINER_KEYS_H_
