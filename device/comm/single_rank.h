// Makes the communicator of a program that runs alone: collectives are copies.
#ifndef CASTOR_DEVICE_COMM_SINGLE_RANK_H_
#define CASTOR_DEVICE_COMM_SINGLE_RANK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "device/comm/communicator.h"

namespace castor {

absl::StatusOr<std::unique_ptr<Communicator>> MakeSingleRank(Device* device);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_SINGLE_RANK_H_
