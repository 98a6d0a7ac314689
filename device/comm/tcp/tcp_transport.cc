#include "device/comm/tcp/tcp_transport.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/event.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "device/comm/secret.h"
#include "device/comm/socket.h"
#include "device/comm/tcp/rendezvous.h"
#include "device/comm/tcp/torch_store.h"
#include "device/comm/watch.h"

namespace castor {
namespace {

constexpr int64_t kMsNs = 1'000'000;
// One connection gives way to the next after so many bytes.
constexpr size_t kTurnBytes = size_t{1} << 22;
// When a data connection has broken, the watch, which has a connection of its
// own, says why. On a cut network keep-alive may end that one some seconds
// later.
constexpr int64_t kNewsNs = 4'000 * kMsNs;
constexpr uint64_t kWake = UINT64_MAX;
// Connections are tried again after so long without news: should the system
// ever keep an edge to itself, a run is slow for a moment and does not stand
// still.
constexpr int64_t kTryAgainMs = 1'000;

// A message on its way, in either direction.
struct Message {
  char* data;  // only read, where it is sent
  uint64_t bytes;
  int64_t token;
  uint64_t size = 0;   // as it crosses the network before the bytes
  uint64_t moved = 0;  // of both
};

struct Connection {
  Socket socket;
  int peer = 0;
  // They are true until the system says otherwise, and again when it has news
  // (edges).
  bool readable = true;
  bool writable = true;
  std::deque<Message> out, in;

  bool wants_to_move() const {
    return socket && ((writable && !out.empty()) || (readable && !in.empty()));
  }
};

// Lists the pieces, at most two, that are left of the message.
int Pieces(Message& message, iovec* pieces) {
  int count = 0;
  constexpr uint64_t kSize = sizeof(message.size);
  if (message.moved < kSize) {
    pieces[count++] = {reinterpret_cast<char*>(&message.size) + message.moved,
                       kSize - message.moved};
  }
  const uint64_t done = std::max(message.moved, kSize) - kSize;
  pieces[count++] = {message.data + done,
                     std::min<uint64_t>(message.bytes - done, kTurnBytes)};
  return count;
}

class TcpTransport final : public Transport {
 public:
  static absl::StatusOr<std::unique_ptr<Transport>> Create(
      int rank, int world_size, Meeting meeting, const TcpOptions& options) {
    std::unique_ptr<TcpTransport> transport(
        new TcpTransport(rank, world_size, std::move(meeting.who)));
    CASTOR_RETURN_IF_ERROR(transport->Open(std::move(meeting.lanes)));
    WatchOptions watch;
    watch.take_sigterm = options.take_sigterm;
    watch.on_death = options.on_death;
    watch.on_failure = [wake = transport->wake_.fd()] { RaiseEvent(wake); };
    CASTOR_ASSIGN_OR_RETURN(
        transport->watch_,
        Watch::Adopt(rank, world_size, watch, std::move(meeting.controls)));
    return transport;
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  absl::Status Send(int peer, Lane lane, const void* data, int64_t bytes,
                    int64_t token) override {
    const uint64_t size = static_cast<uint64_t>(bytes);
    At(peer, lane)
        .out.push_back({.data = static_cast<char*>(const_cast<void*>(data)),
                        .bytes = size,
                        .token = token,
                        .size = size});
    return absl::OkStatus();
  }

  absl::Status Receive(int peer, Lane lane, void* data, int64_t bytes,
                       int64_t token) override {
    At(peer, lane)
        .in.push_back({.data = static_cast<char*>(data),
                       .bytes = static_cast<uint64_t>(bytes),
                       .token = token});
    return absl::OkStatus();
  }

  absl::Status Poll(int64_t wait_ns, bool hot,
                    std::vector<int64_t>* done) override;

  // Nothing moves but in Poll.
  void Abandon() override {
    for (Connection& connection : connections_) {
      connection.out.clear();
      connection.in.clear();
    }
  }

  void Announce(const absl::Status& reason) override {
    watch_->Announce(reason);
  }
  absl::Status Failure() const override { return watch_->Failure(); }

  void Close(bool orderly) override {
    if (!orderly) return;  // and the others see this process end
    watch_->Leave();
    for (Connection& connection : connections_) {
      CASTOR_CHECK(connection.out.empty());
      connection.socket.Reset();
    }
  }

 private:
  TcpTransport(int rank, int world_size, std::vector<std::string> who)
      : rank_(rank), world_size_(world_size), who_(std::move(who)) {}

  Connection& At(int peer, Lane lane) {
    CASTOR_CHECK(peer >= 0 && peer < world_size_ && peer != rank_);
    return connections_[peer * kNumLanes + static_cast<int>(lane)];
  }

  absl::Status Open(std::vector<Socket> lanes);
  // One turn of one connection.
  absl::Status Move(Connection& connection, std::vector<int64_t>* done);
  absl::Status Write(Connection& connection, std::vector<int64_t>* done);
  absl::Status Read(Connection& connection, std::vector<int64_t>* done);
  // Handles the end of a connection by which something should still have moved.
  void Break(Connection& connection, absl::string_view why);
  // Takes the system's news, waiting for them.
  absl::Status Wait(int64_t wait_ns);

  const int rank_;
  const int world_size_;
  const std::vector<std::string> who_;
  std::vector<Connection> connections_;  // by peer and lane
  Socket epoll_;
  Socket wake_;  // an event: the group has failed
  std::string broken_;
  int64_t broken_ns_ = 0;
  std::vector<epoll_event> events_;
  std::unique_ptr<Watch> watch_;  // the last: it raises wake_
};

absl::Status TcpTransport::Open(std::vector<Socket> lanes) {
  epoll_ = Socket(epoll_create1(EPOLL_CLOEXEC));
  wake_ = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wake_) return SocketError("TCP: no event");
  const auto add = [&](int fd, uint32_t events, uint64_t what) {
    epoll_event event = {.events = events, .data = {.u64 = what}};
    return epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  bool added = add(wake_.fd(), EPOLLIN, kWake);
  connections_.resize(lanes.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    connections_[i].peer = static_cast<int>(i) / kNumLanes;
    connections_[i].socket = std::move(lanes[i]);
    if (!connections_[i].socket) continue;
    added &= add(connections_[i].socket.fd(),
                 EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, i);
  }
  events_.resize(std::max<size_t>(connections_.size(), 16));
  return added ? absl::OkStatus() : SocketError("TCP: no event");
}

void TcpTransport::Break(Connection& connection, absl::string_view why) {
  connection.socket.Reset();
  if (!broken_.empty()) return;
  broken_ = absl::StrCat("the connection to ", who_[connection.peer],
                         " broke: ", why);
  broken_ns_ = SteadyNowNs();
}

absl::Status TcpTransport::Write(Connection& connection,
                                 std::vector<int64_t>* done) {
  for (size_t turn = 0; !connection.out.empty() && turn < kTurnBytes;) {
    Message& message = connection.out.front();
    iovec pieces[2];
    msghdr what = {};
    what.msg_iov = pieces;
    what.msg_iovlen = Pieces(message, pieces);
    const ssize_t put =
        sendmsg(connection.socket.fd(), &what, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0) {
      if (errno == EINTR) continue;
      connection.writable = false;
      if (errno != EAGAIN) Break(connection, std::strerror(errno));
      return absl::OkStatus();
    }
    turn += put;
    message.moved += put;
    if (message.moved == message.bytes + sizeof(message.size)) {
      done->push_back(message.token);
      connection.out.pop_front();
    }
  }
  return absl::OkStatus();
}

absl::Status TcpTransport::Read(Connection& connection,
                                std::vector<int64_t>* done) {
  for (size_t turn = 0; !connection.in.empty() && turn < kTurnBytes;) {
    Message& message = connection.in.front();
    iovec pieces[2];
    msghdr what = {};
    what.msg_iov = pieces;
    what.msg_iovlen = Pieces(message, pieces);
    const ssize_t got = recvmsg(connection.socket.fd(), &what, MSG_DONTWAIT);
    if (got <= 0) {
      if (got < 0 && errno == EINTR) continue;
      connection.readable = false;
      if (got == 0 || errno != EAGAIN) {
        Break(connection, got == 0 ? "it has hung up" : std::strerror(errno));
      }
      return absl::OkStatus();
    }
    turn += got;
    message.moved += got;
    if (message.moved >= sizeof(message.size) &&
        message.size != message.bytes) {
      return absl::InternalError(
          absl::StrCat("a message of ", message.size, " bytes from rank ",
                       connection.peer, " where ", message.bytes, " are due"));
    }
    if (message.moved == message.bytes + sizeof(message.size)) {
      done->push_back(message.token);
      connection.in.pop_front();
    }
  }
  return absl::OkStatus();
}

absl::Status TcpTransport::Move(Connection& connection,
                                std::vector<int64_t>* done) {
  if (connection.socket && connection.writable && !connection.out.empty()) {
    CASTOR_RETURN_IF_ERROR(Write(connection, done));
  }
  if (connection.socket && connection.readable && !connection.in.empty()) {
    CASTOR_RETURN_IF_ERROR(Read(connection, done));
  }
  return absl::OkStatus();
}

absl::Status TcpTransport::Wait(int64_t wait_ns) {
  // Up, so that a wait is no spinning.
  const int64_t wait_ms =
      std::min<int64_t>((wait_ns + kMsNs - 1) / kMsNs, kTryAgainMs);
  const int count =
      epoll_wait(epoll_.fd(), events_.data(), static_cast<int>(events_.size()),
                 static_cast<int>(wait_ms));
  if (count < 0 && errno != EINTR) return SocketError("TCP: waiting");
  if (count == 0 && wait_ms == kTryAgainMs) {
    for (Connection& connection : connections_) {
      connection.readable = connection.writable = true;
    }
  }
  for (int i = 0; i < count; ++i) {
    if (events_[i].data.u64 == kWake) continue;
    Connection& connection = connections_[events_[i].data.u64];
    const uint32_t what = events_[i].events;
    // The next read or write finds an error.
    if (what & ~uint32_t{EPOLLOUT}) connection.readable = true;
    if (what & ~uint32_t{EPOLLIN | EPOLLRDHUP}) connection.writable = true;
  }
  return absl::OkStatus();
}

absl::Status TcpTransport::Poll(int64_t wait_ns, bool /*hot*/,
                                std::vector<int64_t>* done) {
  const int64_t until_ns = SteadyNowNs() + wait_ns;
  const size_t before = done->size();
  for (bool looked = false;; looked = true) {
    if (watch_->failed()) return watch_->Failure();
    bool more = false;
    for (Connection& connection : connections_) {
      CASTOR_RETURN_IF_ERROR(Move(connection, done));
      more |= connection.wants_to_move();
    }
    if (done->size() > before) return absl::OkStatus();
    const int64_t now_ns = SteadyNowNs();
    if (looked && now_ns >= until_ns) return absl::OkStatus();
    int64_t left_ns = std::max<int64_t>(0, until_ns - now_ns);
    if (!broken_.empty()) {
      const int64_t news_ns = broken_ns_ + kNewsNs - now_ns;
      if (news_ns <= 0) return absl::UnavailableError(broken_);
      left_ns = std::min(left_ns, news_ns);
    }
    CASTOR_RETURN_IF_ERROR(Wait(more ? 0 : left_ns));
  }
}

// Tells the user, from rank 0, what is notable about how the ranks met.
void Tell(const LaunchEnv& launch, const Meeting& meeting) {
  if (meeting.strangers > 0) {
    TellNote("castor",
             absl::StrCat("the ranks have met", meeting.strangers_text));
  }
  if (meeting.several_machines && launch.secret.empty()) {
    TellNote(
        "castor",
        absl::StrCat(
            "warning: the ranks on several machines share no secret: whoever "
            "reaches rank 0's port ",
            launch.master_port,
            " can join the run, or end it. Give all ranks one: "
            "CASTOR_SECRET_FILE=FILE, made by `umask 077; openssl rand -hex 32 "
            ">FILE` and copied to each machine, or CASTOR_SECRET; castor "
            "launch does it by itself (SECURITY.md)"));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> JoinTcp(const LaunchEnv& launch,
                                                   const TcpOptions& options) {
  if (options.connect_limit_ns <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TCP: ranks cannot meet within ", options.connect_limit_ns, " ns"));
  }
  LaunchEnv found = launch;
  CASTOR_ASSIGN_OR_RETURN(found.secret,
                          ReadSecret(launch.secret, launch.secret_file));
  if (launch.master_is_store) {
    CASTOR_ASSIGN_OR_RETURN(
        found, FindMasterInTorchStore(found, options.connect_limit_ns));
  }
  CASTOR_ASSIGN_OR_RETURN(Meeting meeting,
                          Meet(found, options.connect_limit_ns));
  Tell(found, meeting);
  return TcpTransport::Create(launch.rank, launch.world_size,
                              std::move(meeting), options);
}

}  // namespace castor
