#include "device/comm/tcp/torch_store.h"

#include <arpa/inet.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "device/comm/socket.h"

namespace castor {
namespace {

constexpr uint32_t kValidation = 0x3c85f7ce;
constexpr int64_t kRetryNs = 100'000'000;
constexpr uint64_t kMaxValue = 1024;

enum Request : char { kValidate = 0, kSet = 1, kGet = 3, kWait = 6 };

template <typename T>
std::string AsBytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Text(absl::string_view text) {
  return absl::StrCat(AsBytes(uint64_t{text.size()}), text);
}

absl::Status Say(const Socket& store, Request request, absl::string_view words,
                 int64_t until_ns) {
  const std::string bytes = absl::StrCat(std::string(1, request), words);
  return WriteAll(store.fd(), bytes.data(), bytes.size(), until_ns);
}

absl::StatusOr<Socket> Connect(const LaunchEnv& launch, int64_t until_ns) {
  while (true) {
    absl::Status status;
    const auto addresses = Resolve(launch.master_address, launch.master_port);
    status = addresses.status();
    if (addresses.ok()) {
      for (const SocketAddress& address : *addresses) {
        absl::StatusOr<Socket> socket = ConnectTo(address, until_ns);
        if (socket.ok()) return socket;
        status = socket.status();
      }
    }
    if (SteadyNowNs() + kRetryNs > until_ns) return status;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kRetryNs));
  }
}

// "PORT" where rank 0 is reached by the store's own name, "PORT ADDRESS"
// otherwise.
absl::StatusOr<std::string> Listen(const Socket& store, LaunchEnv* env) {
  SocketAddress local = LocalAddress(store.fd());
  local.set_port(0);
  const std::string& name = env->master_address;
  const bool others_reach_it =
      !local.is_loopback() || env->local_size == env->world_size ||
      name == "localhost" || name == "::1" || name.rfind("127.", 0) == 0;
  const int backlog = std::max(64, 4 * env->world_size);
  CASTOR_ASSIGN_OR_RETURN(Socket listener, others_reach_it
                                               ? ListenAtOrOnAll(local, backlog)
                                               : ListenOnAll(0, backlog));
  env->master_port = LocalAddress(listener.fd()).port();
  env->master_socket = listener.Release();
  if (local.is_loopback()) return absl::StrCat(env->master_port);
  env->master_address = local.HostText();
  return absl::StrCat(env->master_port, " ", env->master_address);
}

absl::StatusOr<std::string> Get(const Socket& store, absl::string_view key,
                                int64_t until_ns) {
  CASTOR_RETURN_IF_ERROR(Say(
      store, kWait, absl::StrCat(AsBytes(uint64_t{1}), Text(key)), until_ns));
  char answer = 1;
  CASTOR_RETURN_IF_ERROR(ReadAll(store.fd(), &answer, 1, until_ns));
  CASTOR_RETURN_IF_ERROR(Say(store, kGet, Text(key), until_ns));
  uint64_t bytes = 0;
  CASTOR_RETURN_IF_ERROR(ReadAll(store.fd(), &bytes, sizeof(bytes), until_ns));
  if (answer != 0 || bytes > kMaxValue) {
    return absl::UnavailableError("it does not speak as PyTorch's does");
  }
  std::string value(bytes, '\0');
  CASTOR_RETURN_IF_ERROR(
      ReadAll(store.fd(), value.data(), value.size(), until_ns));
  return value;
}

bool IsIpAddress(const std::string& text) {
  in6_addr room;
  return inet_pton(AF_INET, text.c_str(), &room) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &room) == 1;
}

}  // namespace

absl::StatusOr<LaunchEnv> FindMasterInTorchStore(const LaunchEnv& launch,
                                                 const Socket& store,
                                                 int64_t until_ns) {
  LaunchEnv env = launch;
  CASTOR_RETURN_IF_ERROR(Say(store, kValidate, AsBytes(kValidation), until_ns));
  const std::string key = absl::StrCat("/castor/rank 0/", launch.run_id);
  if (launch.rank == 0) {
    CASTOR_ASSIGN_OR_RETURN(const std::string value, Listen(store, &env));
    CASTOR_RETURN_IF_ERROR(
        Say(store, kSet, absl::StrCat(Text(key), Text(value)), until_ns));
    // A request that is answered tells that the store has taken the former.
    return Get(store, key, until_ns).ok()
               ? absl::StatusOr<LaunchEnv>(env)
               : absl::UnavailableError("it does not keep what it is given");
  }
  const absl::StatusOr<std::string> told = Get(store, key, until_ns);
  if (!told.ok() && SteadyNowNs() >= until_ns) {
    return Annotate(
        "rank 0 has not said there where it listens: was it started?",
        told.status());
  }
  CASTOR_RETURN_IF_ERROR(told.status());
  const std::string& value = *told;
  // Anybody who reaches the store can have written it, so it must be an
  // address: a name would be looked up.
  const size_t space = value.find(' ');
  const std::string address =
      space == std::string::npos ? "" : value.substr(space + 1);
  if (!absl::SimpleAtoi(value.substr(0, space), &env.master_port) ||
      env.master_port < 1 || env.master_port > 65535 ||
      (!address.empty() && !IsIpAddress(address))) {
    return absl::UnavailableError("it holds no address of rank 0");
  }
  if (!address.empty()) env.master_address = address;
  return env;
}

absl::StatusOr<LaunchEnv> FindMasterInTorchStore(const LaunchEnv& launch,
                                                 int64_t connect_limit_ns) {
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns;
  const absl::StatusOr<Socket> store = Connect(launch, until_ns);
  absl::StatusOr<LaunchEnv> env =
      store.ok() ? FindMasterInTorchStore(launch, *store, until_ns)
                 : store.status();
  if (env.ok()) return env;
  return Annotate(absl::StrCat("rank ", launch.rank, ": torchrun's store at ",
                               launch.master_address, ":", launch.master_port),
                  env.status());
}

}  // namespace castor
