// If torchrun's agent keeps MASTER_PORT for itself (the variable
// TORCHELASTIC_USE_AGENT_STORE), a store of PyTorch's (TCPStore) listens there.
// Rank 0 cannot, and need not even be on that machine. So rank 0 listens
// elsewhere and puts its address into the store, where the others find it.
//
// The store's protocol (torch/csrc/distributed/c10d/TCPStore.cpp) has more
// requests; the three that are used have not changed from PyTorch 1.13 to 2.13.
// A request is a byte, then its words; a text is its size (8 bytes) and its
// bytes:
//
//   VALIDATE  0, 0x3c85f7ce (4 bytes)      must come first
//   SET       1, key, value
//   WAIT      6, 1 (8 bytes), key          answers 0 (1 byte) when it is there
//   GET       3, key                       answers the value
#ifndef CASTOR_DEVICE_COMM_TCP_TORCH_STORE_H_
#define CASTOR_DEVICE_COMM_TCP_TORCH_STORE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "device/comm/launch_env.h"
#include "device/comm/socket.h"

namespace castor {

// Returns `launch` with rank 0's address as its master's, at which rank 0
// listens already (it owns master_socket). Unavailable: the store cannot be
// reached, or rank 0 has put no address there within the limit.
absl::StatusOr<LaunchEnv> FindMasterInTorchStore(const LaunchEnv& launch,
                                                 int64_t connect_limit_ns);

// The same over an existing connection to the store, until `until_ns`.
absl::StatusOr<LaunchEnv> FindMasterInTorchStore(const LaunchEnv& launch,
                                                 const Socket& store,
                                                 int64_t until_ns);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TCP_TORCH_STORE_H_
