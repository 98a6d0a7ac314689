// The emulated card of a rank on the host device, whose memory device.memory
// gives.
#ifndef CASTOR_CLI_MACHINE_HOST_CARD_H_
#define CASTOR_CLI_MACHINE_HOST_CARD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "run/config/config.h"
#include "runtime/train/trainer.h"

namespace castor::cli {

// Returns the budget, in bytes, with which a run begins that follows the card
// (FirstBudget): what others leave free of it now, but for a sixteenth of the
// card. `local_rank` numbers this machine's ranks, each of which has a card.
absl::StatusOr<int64_t> FirstBudgetOnCard(const DeviceConfig& device,
                                          int local_rank);

// Makes the trainer run on the rank's card. A budget that follows the card and
// is not known yet becomes FirstBudgetOnCard or, in a run that is only planned,
// what that would be if nobody else used the card. Fails as that does.
absl::Status RunOnCard(const Config& config, int local_rank,
                       TrainerOptions* options);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_HOST_CARD_H_
