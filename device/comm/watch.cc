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
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/event.h"
#include "base/printable.h"
#include "base/signals.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "device/comm/greeter.h"
#include "device/comm/handshake.h"
#include "device/comm/lost_rank.h"
#include "device/comm/secret.h"
#include "device/comm/socket.h"

namespace castor {

// Says where rank 0 listens. Ranks share it as bytes.
struct Endpoint {
  uint8_t secret[16];
  uint16_t port;  // as on the network
  uint16_t num_addresses;
  uint32_t addresses[64];  // IPv4, as on the network
  uint32_t failed;
  int32_t process;  // rank 0's
  char host[64];
};

namespace {

constexpr int64_t kMsNs = 1'000'000;
// The longest time that a handshake at one address may take.
constexpr int kGreetingMs = 3000;
// After this time a word that was sent has arrived, or the peer is gone.
constexpr unsigned kAcknowledgedMs = 8000;
// The time after a SIGTERM by which news of a death must be here, and that by
// which the process must have ended by itself. Open MPI sends SIGKILL a second
// after it.
constexpr int64_t kNewsNs = 300 * kMsNs;
constexpr int64_t kGraceNs = 700 * kMsNs;

// A rank's introduction, which it adds to its proof.
struct Introduction {
  int32_t process;
  char host[64];
};

absl::Status SystemError(absl::string_view what) {
  return SocketError(absl::StrCat("watch: ", what));
}

// Sends a few hundred bytes, which fit into the socket's buffer.
bool WriteNow(int fd, const void* data, size_t bytes) {
  return send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes);
}

HandshakeTerms Terms(const Endpoint& endpoint) {
  const auto* const secret = reinterpret_cast<const char*>(endpoint.secret);
  return {.key = std::string(secret, sizeof(endpoint.secret)),
          .run_id = {},
          .role = ConnectionRole::kWatch,
          .note_bytes = sizeof(Introduction)};
}

Introduction Introduce() {
  Introduction mine = {};
  mine.process = getpid();
  gethostname(mine.host, sizeof(mine.host) - 1);
  return mine;
}

std::string Name(int rank, const Introduction& introduction) {
  const absl::string_view host(
      introduction.host, strnlen(introduction.host, sizeof(introduction.host)));
  return absl::StrCat("rank ", rank, " (process ", introduction.process, " on ",
                      Printable(host), ")");
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
    const Introduction mine = Introduce();
    endpoint.process = mine.process;
    std::memcpy(endpoint.host, mine.host, sizeof(endpoint.host));
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
  Greeter greeter(listener_.fd(), Terms(endpoint), 0);
  while (static_cast<int>(peers_.size()) + 1 < world_size_) {
    std::optional<Greeter::News> news = greeter.Next({}, until);
    if (!news.has_value()) {
      std::string missing;
      for (int rank = 1; rank < world_size_; ++rank) {
        if (std::none_of(peers_.begin(), peers_.end(),
                         [&](const Peer& peer) { return peer.rank == rank; })) {
          absl::StrAppend(&missing, missing.empty() ? "" : ", ", rank);
        }
      }
      return absl::UnavailableError(absl::StrCat(
          "watch: no connection from rank ", missing,
          "; rank 0 must be reachable by TCP from every rank's machine",
          greeter.StrangersText()));
    }
    const int rank = news->claim.rank;
    if (rank < 1 || rank >= world_size_) continue;
    // The rank may have given up one address and come by another.
    peers_.erase(
        std::remove_if(peers_.begin(), peers_.end(),
                       [&](const Peer& peer) { return peer.rank == rank; }),
        peers_.end());
    Introduction theirs;
    std::memcpy(&theirs, news->note.data(), sizeof(theirs));
    peers_.push_back({.rank = rank,
                      .socket = std::move(news->socket),
                      .who = Name(rank, theirs),
                      .received = {}});
  }
  listener_.Reset();
  return absl::OkStatus();
}

absl::Status Watch::Connect(const Endpoint& endpoint) {
  Introduction first = {.process = endpoint.process, .host = {}};
  std::memcpy(first.host, endpoint.host, sizeof(first.host));
  const Introduction mine = Introduce();
  const std::string note(reinterpret_cast<const char*>(&mine), sizeof(mine));
  Claim claim;
  claim.role = ConnectionRole::kWatch;
  claim.rank = rank_;
  std::string tried;
  for (int i = 0; i < endpoint.num_addresses; ++i) {
    SocketAddress address;
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = endpoint.port;
    v4->sin_addr.s_addr = endpoint.addresses[i];
    absl::StatusOr<Socket> socket =
        ConnectTo(address, SteadyNowNs() + kGreetingMs * kMsNs);
    CASTOR_ASSIGN_OR_RETURN(std::string nonce, RandomKey());
    Handshake handshake =
        Handshake::Connecting(Terms(endpoint), std::move(nonce), claim, note);
    if (socket.ok() && ShakeHands(socket->fd(), &handshake,
                                  SteadyNowNs() + options_.connect_limit_ns)
                           .ok()) {
      peers_.push_back({.rank = 0,
                        .socket = *std::move(socket),
                        .who = Name(0, first),
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
  CASTOR_ASSIGN_OR_RETURN(thread_, StartThread("the watch over the other ranks",
                                               [this] { Loop(); }));
  return absl::OkStatus();
}

Watch::~Watch() {
  if (thread_.joinable()) {
    stop_.store(true);
    RaiseEvent(wake_.fd());
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
  if (Record(reason)) SendToAll(WatchFrameKind::kFail, reason, -1);
}

void Watch::Leave() {
  left_.store(true);
  SendToAll(WatchFrameKind::kLeft, absl::OkStatus(), -1);
}

void Watch::SendToAll(WatchFrameKind kind, const absl::Status& status,
                      int except_rank) {
  const std::string frame = WriteWatchFrame({.kind = kind, .status = status});
  std::lock_guard<std::mutex> lock(send_mutex_);
  for (const Peer& peer : peers_) {
    // A rank that cannot be told is gone, or will find out by the time limit.
    if (peer.socket && peer.rank != except_rank) {
      WriteNow(peer.socket.fd(), frame.data(), frame.size());
    }
  }
}

void Watch::HandleFrame(Peer& peer, const WatchFrame& frame) {
  if (frame.kind == WatchFrameKind::kLeft) {
    peer.left = true;
  } else if (Record(frame.status) && rank_ == 0) {
    SendToAll(WatchFrameKind::kFail, frame.status, peer.rank);
  }
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
  if (rank_ == 0) SendToAll(WatchFrameKind::kFail, reason, peer.rank);
  // The first that is left speaks for all.
  if (rank_ != (peer.rank == 0 ? 1 : 0)) return;
  if (options_.on_death) {
    options_.on_death(text);
  } else {
    TellOfLostRank(text);
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
  peer.received.Add(absl::string_view(buffer, got));
  while (const std::optional<WatchFrame> frame = peer.received.Next()) {
    HandleFrame(peer, *frame);
  }
  return !peer.received.broken();
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
    if (entries[0].revents != 0) ClearEvent(wake_.fd());
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
