// Where torchrun's agent keeps MASTER_PORT for itself (TORCHELASTIC_USE_AGENT_
// STORE), a store of PyTorch's listens there (TCPStore): rank 0 cannot, and
// need not be on that machine at all. So rank 0 listens elsewhere and leaves
// its address in the store, where the others find it.
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

// `launch` with rank 0's address as its master, at which rank 0 listens
// already (it owns master_socket). Unavailable: the store cannot be reached, or
// rank 0 has not been there within the limit.
absl::StatusOr<LaunchEnv> FindMasterInTorchStore(const LaunchEnv& launch,
                                                 int64_t connect_limit_ns);

// The same over a connection to the store that is there already (until then).
absl::StatusOr<LaunchEnv> FindMasterInTorchStore(const LaunchEnv& launch,
                                                 const Socket& store,
                                                 int64_t until_ns);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TCP_TORCH_STORE_H_
