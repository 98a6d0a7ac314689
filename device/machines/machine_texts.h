// machines.json, as the program carries it.
#ifndef CASTOR_DEVICE_MACHINES_MACHINE_TEXTS_H_
#define CASTOR_DEVICE_MACHINES_MACHINE_TEXTS_H_

#include "absl/types/span.h"
#include "base/embedded_text.h"

namespace castor {

absl::Span<const EmbeddedText> MachineTexts();

}  // namespace castor

#endif  // CASTOR_DEVICE_MACHINES_MACHINE_TEXTS_H_
