// The tables of trainers' keys, a part of them in each.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_TRAINER_KEYS_H_
#define CASTOR_RUN_CONFIG_FOREIGN_TRAINER_KEYS_H_

#include "absl/types/span.h"
#include "run/config/foreign/foreign_key.h"

namespace castor {

// Keys of how a model is trained, and of what is said and kept of it.
absl::Span<const ForeignKey> TrainingKeys();
// Keys of the model and the data.
absl::Span<const ForeignKey> InputKeys();
// Keys of memory, types of numbers and ranks; and those of other systems, which
// are for hints alone.
absl::Span<const ForeignKey> MachineKeys();

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_FOREIGN_TRAINER_KEYS_H_
