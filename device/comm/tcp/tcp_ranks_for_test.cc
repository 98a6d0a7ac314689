#include "device/comm/tcp/tcp_ranks_for_test.h"

#include <netinet/in.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "device/comm/socket.h"

namespace castor {

std::vector<LaunchEnv> LaunchOnLoopback(int world_size, int family) {
  SocketAddress address = Loopback();
  if (family == AF_INET6) {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    *v6 = {};
    v6->sin6_family = AF_INET6;
    v6->sin6_addr = in6addr_loopback;
  }
  auto listener = ListenAt(address, 64);
  CASTOR_CHECK(listener.ok());
  std::vector<LaunchEnv> ranks(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    LaunchEnv& env = ranks[rank];
    env.launcher = Launcher::kTorchrun;
    env.rank = env.local_rank = rank;
    env.world_size = env.local_size = world_size;
    env.master_address = family == AF_INET6 ? "::1" : "127.0.0.1";
    env.master_port = LocalAddress(listener->fd()).port();
    env.run_id = absl::StrCat("test ", env.master_port);
  }
  ranks[0].master_socket = listener->Release();
  return ranks;
}

void RunTcpRanks(int world_size, int family, const TcpOptions& options,
                 const std::function<void(std::unique_ptr<Transport>)>& body) {
  const std::vector<LaunchEnv> ranks = LaunchOnLoopback(world_size, family);
  TcpOptions here = options;
  here.take_sigterm = false;  // one process has but one
  std::vector<std::thread> threads;
  for (const LaunchEnv& rank : ranks) {
    threads.emplace_back([&] {
      auto transport = JoinTcp(rank, here);
      CASTOR_CHECK(transport.ok());
      CASTOR_CHECK((*transport)->rank() == rank.rank);
      CASTOR_CHECK((*transport)->world_size() == world_size);
      body(*std::move(transport));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace castor
