#include "device/comm/watch.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/comm/sigterm.h"
#include "device/comm/socket.h"

namespace castor {

// Where rank 0 listens. Shared as bytes.
struct Endpoint {
  uint8_t secret[16];
  uint16_t port;  // as on the network
  uint16_t num_addresses;
  uint32_t addresses[64];  // IPv4, as on the network
  uint32_t failed;
};

namespace {

constexpr uint32_t kMagic = 0x43575431;
constexpr int64_t kMsNs = 1'000'000;
// For one address and one greeting.
constexpr int kGreetingMs = 3000;
// A word that is sent has arrived by then, or the peer is gone.
constexpr unsigned kAcknowledgedMs = 8000;
// After a SIGTERM: until news of a death must be here, and until the process
// must have ended by itself. Open MPI sends SIGKILL a second after it.
constexpr int64_t kNewsNs = 300 * kMsNs;
constexpr int64_t kGraceNs = 700 * kMsNs;
constexpr uint32_t kMaxText = 8192;

enum Frames : uint32_t { kFail = 1, kLeft = 2 };

// Both sides' first words.
struct Hello {
  uint32_t magic;
  int32_t rank;
  int32_t process;
  uint8_t secret[16];
  char host[64];
};

struct FrameHeader {
  uint32_t type;
  int32_t code;
  uint32_t text_bytes;
};

absl::Status SystemError(absl::string_view what) {
  return SocketError(absl::StrCat("watch: ", what));
}

// Of a few hundred bytes, which fit into the socket's buffer.
bool WriteNow(int fd, const void* data, size_t bytes) {
  return send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes);
}

Hello MakeHello(int rank, const Endpoint& endpoint) {
  Hello hello = {};
  hello.magic = kMagic;
  hello.rank = rank;
  hello.process = getpid();
  std::memcpy(hello.secret, endpoint.secret, sizeof(hello.secret));
  gethostname(hello.host, sizeof(hello.host) - 1);
  return hello;
}

bool IsFriend(const Hello& hello, const Endpoint& endpoint) {
  return hello.magic == kMagic &&
         std::memcmp(hello.secret, endpoint.secret, sizeof(hello.secret)) == 0;
}

std::string Name(const Hello& hello) {
  return absl::StrCat(
      "rank ", hello.rank, " (process ", hello.process, " on ",
      absl::string_view(hello.host, strnlen(hello.host, sizeof(hello.host))),
      ")");
}

void AddOwnAddresses(Endpoint* endpoint) {
  constexpr uint16_t kRoom = sizeof(endpoint->addresses) / sizeof(uint32_t);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET ||
        (at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0 ||
        endpoint->num_addresses == kRoom) {
      continue;
    }
    endpoint->addresses[endpoint->num_addresses++] =
        reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr.s_addr;
  }
  freeifaddrs(list);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Watch>> Watch::Create(
    int rank, int world_size, const WatchOptions& options, Share share) {
  std::unique_ptr<Watch> watch(new Watch(rank, world_size, options));
  Endpoint endpoint = {};
  absl::Status listening;
  if (rank == 0) {
    listening = watch->Listen(&endpoint);
    endpoint.failed = !listening.ok();
  }
  CASTOR_RETURN_IF_ERROR(share(&endpoint, sizeof(endpoint)));
  CASTOR_RETURN_IF_ERROR(listening);
  if (endpoint.failed) {
    return absl::UnavailableError("watch: rank 0 cannot listen");
  }
  CASTOR_RETURN_IF_ERROR(rank == 0 ? watch->AcceptAll(endpoint)
                                   : watch->Connect(endpoint));
  CASTOR_RETURN_IF_ERROR(watch->Start());
  return watch;
}

absl::StatusOr<std::unique_ptr<Watch>> Watch::Adopt(
    int rank, int world_size, const WatchOptions& options,
    std::vector<WatchPeer> peers) {
  std::unique_ptr<Watch> watch(new Watch(rank, world_size, options));
  for (WatchPeer& peer : peers) {
    watch->peers_.push_back({.rank = peer.rank,
                             .socket = std::move(peer.socket),
                             .who = std::move(peer.who),
                             .received = {}});
  }
  CASTOR_RETURN_IF_ERROR(watch->Start());
  return watch;
}

absl::Status Watch::Listen(Endpoint* endpoint) {
  if (getrandom(endpoint->secret, sizeof(endpoint->secret), 0) !=
      sizeof(endpoint->secret)) {
    return SystemError("no random numbers");
  }
  // IPv4, as the addresses in `endpoint`.
  auto listener = options_.same_machine
                      ? ListenAt(Loopback(), std::max(world_size_, 16))
                      : ListenOnAll(0, std::max(world_size_, 16));
  CASTOR_RETURN_IF_ERROR(Annotate("watch: rank 0", listener.status()));
  listener_ = *std::move(listener);
  endpoint->port =
      htons(static_cast<uint16_t>(LocalAddress(listener_.fd()).port()));
  if (options_.same_machine) {
    endpoint->addresses[endpoint->num_addresses++] = htonl(INADDR_LOOPBACK);
  } else {
    AddOwnAddresses(endpoint);
  }
  return absl::OkStatus();
}

absl::Status Watch::AcceptAll(const Endpoint& endpoint) {
  const int64_t until = SteadyNowNs() + options_.connect_limit_ns;
  const Hello mine = MakeHello(0, endpoint);
  while (static_cast<int>(peers_.size()) + 1 < world_size_) {
    if (!WaitForSocket(listener_.fd(), POLLIN, until)) {
      std::string missing;
      for (int rank = 1; rank < world_size_; ++rank) {
        if (std::none_of(peers_.begin(), peers_.end(),
                         [&](const Peer& peer) { return peer.rank == rank; })) {
          absl::StrAppend(&missing, missing.empty() ? "" : ", ", rank);
        }
      }
      return absl::UnavailableError(absl::StrCat(
          "watch: no connection from rank ", missing,
          "; rank 0 must be reachable by TCP from every rank's machine"));
    }
    Socket socket = AcceptNow(listener_.fd());
    if (!socket) continue;
    Hello hello = {};
    const bool known = ReadAll(socket.fd(), &hello, sizeof(hello),
                               SteadyNowNs() + kGreetingMs * kMsNs)
                           .ok() &&
                       IsFriend(hello, endpoint) && hello.rank > 0 &&
                       hello.rank < world_size_ &&
                       WriteNow(socket.fd(), &mine, sizeof(mine));
    if (!known) continue;  // not one of ours
    // A rank that gave up one address and came by another.
    peers_.erase(std::remove_if(
                     peers_.begin(), peers_.end(),
                     [&](const Peer& peer) { return peer.rank == hello.rank; }),
                 peers_.end());
    peers_.push_back({.rank = hello.rank,
                      .socket = std::move(socket),
                      .who = Name(hello),
                      .received = {}});
  }
  listener_.Reset();
  return absl::OkStatus();
}

absl::Status Watch::Connect(const Endpoint& endpoint) {
  const Hello mine = MakeHello(rank_, endpoint);
  std::string tried;
  for (int i = 0; i < endpoint.num_addresses; ++i) {
    SocketAddress address;
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = endpoint.port;
    v4->sin_addr.s_addr = endpoint.addresses[i];
    absl::StatusOr<Socket> socket =
        ConnectTo(address, SteadyNowNs() + kGreetingMs * kMsNs);
    // Rank 0 greets one after the other.
    Hello hello = {};
    if (socket.ok() && WriteNow(socket->fd(), &mine, sizeof(mine)) &&
        ReadAll(socket->fd(), &hello, sizeof(hello),
                SteadyNowNs() + options_.connect_limit_ns)
            .ok() &&
        IsFriend(hello, endpoint) && hello.rank == 0) {
      peers_.push_back({.rank = 0,
                        .socket = *std::move(socket),
                        .who = Name(hello),
                        .received = {}});
      return absl::OkStatus();
    }
    absl::StrAppend(&tried, tried.empty() ? "" : ", ",
                    socket.ok()
                        ? address.ToString() + ": not rank 0 of this run"
                        : std::string(socket.status().message()));
  }
  return absl::UnavailableError(absl::StrCat(
      "watch: rank ", rank_, " cannot connect to rank 0; tried ",
      tried.empty() ? "nothing, for rank 0 has no network address" : tried));
}

absl::Status Watch::Start() {
  // Keep-alive asks nothing while words wait to be acknowledged: those are sent
  // again for a quarter of an hour. (Not for connections that carry data: they
  // may stand still for as long as their reader does.)
  for (const Peer& peer : peers_) {
    const unsigned ms = kAcknowledgedMs;
    if (setsockopt(peer.socket.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms,
                   sizeof(ms)) != 0) {
      return SystemError("no limit for a connection");
    }
  }
  wake_ = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return SystemError("no event");
  has_sigterm_ = options_.take_sigterm && TakeSigterm(wake_.fd());
  thread_ = std::thread([this] { Loop(); });
  return absl::OkStatus();
}

Watch::~Watch() {
  if (thread_.joinable()) {
    stop_.store(true);
    const uint64_t one = 1;
    CASTOR_CHECK(write(wake_.fd(), &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  if (has_sigterm_) GiveSigtermBack();
}

bool Watch::Record(const absl::Status& reason) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return false;
    failure_ = reason;
    failed_.store(true, std::memory_order_release);
  }
  if (options_.on_failure) options_.on_failure();
  return true;
}

absl::Status Watch::Failure() const {
  if (!failed()) return absl::OkStatus();
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void Watch::Announce(const absl::Status& reason) {
  if (Record(reason)) SendToAll(kFail, reason, -1);
}

void Watch::Leave() {
  left_.store(true);
  SendToAll(kLeft, absl::OkStatus(), -1);
}

void Watch::SendToAll(uint32_t type, const absl::Status& status,
                      int except_rank) {
  const absl::string_view text = status.message().substr(0, kMaxText);
  const FrameHeader header = {.type = type,
                              .code = static_cast<int32_t>(status.code()),
                              .text_bytes = static_cast<uint32_t>(text.size())};
  std::string frame(reinterpret_cast<const char*>(&header), sizeof(header));
  frame.append(text.data(), text.size());
  std::lock_guard<std::mutex> lock(send_mutex_);
  for (const Peer& peer : peers_) {
    // Who cannot be told is gone, or will find out by the time limit.
    if (peer.socket && peer.rank != except_rank) {
      WriteNow(peer.socket.fd(), frame.data(), frame.size());
    }
  }
}

void Watch::HandleFrame(Peer& peer, uint32_t type, int32_t code,
                        std::string text) {
  if (type == kLeft) {
    peer.left = true;
    return;
  }
  if (type != kFail || code == 0) return;
  const absl::Status reason(static_cast<absl::StatusCode>(code), text);
  if (Record(reason) && rank_ == 0) SendToAll(kFail, reason, peer.rank);
}

void Watch::HandleEnd(Peer& peer) {
  {
    std::lock_guard<std::mutex> lock(send_mutex_);
    peer.socket.Reset();
  }
  // A connection that is closed with words unread may lose the last ones sent.
  if (peer.left || left_.load()) return;
  const std::string text = absl::StrCat(
      peer.who, peer.silent ? " does not answer any more: its machine or the "
                              "network between is down"
                            : " died");
  const absl::Status reason = absl::UnavailableError(text);
  if (!Record(reason)) return;
  if (rank_ == 0) SendToAll(kFail, reason, peer.rank);
  // The first that is left speaks for all.
  if (rank_ != (peer.rank == 0 ? 1 : 0)) return;
  if (options_.on_death) {
    options_.on_death(text);
  } else {
    std::fprintf(stderr, "castor: %s; the other ranks end too\n", text.c_str());
  }
}

bool Watch::Read(Peer& peer) {
  char buffer[4096];
  const ssize_t got =
      recv(peer.socket.fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {
    // Keep-alive gave up, or a router did.
    peer.silent = got < 0 && errno != ECONNRESET;
    return false;
  }
  peer.received.append(buffer, got);
  while (peer.received.size() >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, peer.received.data(), sizeof(header));
    if (header.text_bytes > kMaxText) return false;
    const size_t bytes = sizeof(header) + header.text_bytes;
    if (peer.received.size() < bytes) break;
    HandleFrame(peer, header.type, header.code,
                peer.received.substr(sizeof(header), header.text_bytes));
    peer.received.erase(0, bytes);
  }
  return true;
}

void Watch::Loop() {
  int64_t sigterm_ns = 0;  // when it came
  while (!stop_.load()) {
    std::vector<pollfd> entries = {
        {.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
    for (const Peer& peer : peers_) {
      // A negative descriptor is passed over.
      entries.push_back(
          {.fd = peer.socket.fd(), .events = POLLIN, .revents = 0});
    }
    const int timeout_ms = sigterm_ns == 0 ? -1 : 10;
    if (poll(entries.data(), entries.size(), timeout_ms) < 0) continue;
    if (entries[0].revents != 0) {
      uint64_t count;
      [[maybe_unused]] const ssize_t got =
          read(wake_.fd(), &count, sizeof(count));
    }
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (entries[i + 1].revents != 0 && !Read(peers_[i])) {
        HandleEnd(peers_[i]);
      }
    }
    if (has_sigterm_ && SigtermCame()) {
      const int64_t now_ns = SteadyNowNs();
      if (sigterm_ns == 0) sigterm_ns = now_ns;
      const int64_t waited_ns = now_ns - sigterm_ns;
      if (waited_ns > (failed() ? kGraceNs : kNewsNs)) EndBySigterm();
    }
  }
}

}  // namespace castor
