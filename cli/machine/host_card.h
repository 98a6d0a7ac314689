// The emulated card of a rank on the host device, where device.memory says what
// it has.
#ifndef CASTOR_CLI_MACHINE_HOST_CARD_H_
#define CASTOR_CLI_MACHINE_HOST_CARD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "run/config/config.h"
#include "runtime/train/trainer.h"

namespace castor::cli {

// Returns the budget, in bytes, with which a run begins that follows the card:
// what the card has room for now. `local_rank` numbers this machine's ranks,
// each of which has a card.
absl::StatusOr<int64_t> RoomOnCard(const DeviceConfig& device, int local_rank);

// Has the trainer run on the rank's card. A budget that follows it and is not
// known yet becomes what it has room for or, of a run that is only planned,
// what it would have if nobody else used it. ResourceExhausted: that is less
// than memory.device_memory_floor.
absl::Status RunOnCard(const Config& config, int local_rank,
                       TrainerOptions* options);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_HOST_CARD_H_
