// Any answers of a listener in the place of torchrun's store: an address of
// rank 0 as the store may hold it, or an error; in time.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "device/comm/launch_env.h"
#include "device/comm/socket.h"
#include "device/comm/tcp/torch_store.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace castor;  // NOLINT
  int pair[2];
  CASTOR_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const Socket here(pair[0]), there(pair[1]);
  // All that fits is there at once, and then it hangs up.
  const size_t some = std::min<size_t>(size, 1 << 14);
  CASTOR_CHECK(send(there.fd(), data, some, MSG_NOSIGNAL) ==
               static_cast<ssize_t>(some));
  shutdown(there.fd(), SHUT_WR);
  LaunchEnv launch;
  launch.rank = 1;
  launch.world_size = 2;
  launch.master_address = "store";
  launch.master_port = 1;
  const auto found =
      FindMasterInTorchStore(launch, here, SteadyNowNs() + 10'000'000'000);
  if (!found.ok()) {
    CASTOR_CHECK(absl::IsUnavailable(found.status()));
    return 0;
  }
  CASTOR_CHECK(found->master_port >= 1 && found->master_port <= 65535);
  in6_addr room;
  CASTOR_CHECK(found->master_address == "store" ||
               inet_pton(AF_INET, found->master_address.c_str(), &room) == 1 ||
               inet_pton(AF_INET6, found->master_address.c_str(), &room) == 1);
  return 0;
}
