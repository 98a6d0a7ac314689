// Ranks over TCP within one process, over loopback.
#ifndef CASTOR_DEVICE_COMM_TCP_TCP_RANKS_FOR_TEST_H_
#define CASTOR_DEVICE_COMM_TCP_TCP_RANKS_FOR_TEST_H_

#include <functional>
#include <memory>
#include <vector>

#include "device/comm/launch_env.h"
#include "device/comm/tcp/tcp_transport.h"
#include "device/comm/transport.h"

namespace castor {

// Returns each rank's launch as torchrun would start it. Rank 0 listens
// already, so that no other program can take the port first. `family`: AF_INET
// or AF_INET6.
std::vector<LaunchEnv> LaunchOnLoopback(int world_size, int family);

// Calls `body` with every rank's transport, each in a thread of its own. The
// body closes it.
void RunTcpRanks(int world_size, int family, const TcpOptions& options,
                 const std::function<void(std::unique_ptr<Transport>)>& body);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TCP_TCP_RANKS_FOR_TEST_H_
