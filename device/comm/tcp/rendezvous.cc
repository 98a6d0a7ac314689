#include "device/comm/tcp/rendezvous.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "device/comm/tcp/greeter.h"

namespace castor {
namespace {

constexpr uint32_t kHelloMagic = 0x43544831;  // the protocol's version
constexpr uint32_t kReplyMagic = 0x43545231;
constexpr uint32_t kLaneMagic = 0x43544c31;
constexpr int64_t kMsNs = 1'000'000;
constexpr int64_t kRetryNs = 100 * kMsNs;
constexpr int64_t kAttemptNs = 5'000 * kMsNs;
// For a few bytes to somebody who is waiting for them.
constexpr int64_t kReplyNs = 10'000 * kMsNs;
constexpr uint32_t kMaxReply = 1 << 28;
constexpr size_t kSecretBytes = 16;

// All of these as they cross the network, between equal machines.
struct Hello {
  uint32_t magic;
  int32_t rank;
  int32_t world_size;
  int32_t process;
  char run_id[64];
  char host[64];
  SocketAddress listener;
};
struct ReplyHeader {
  uint32_t magic;
  int32_t code;
  uint32_t text_bytes;
};
struct RosterEntry {
  SocketAddress listener;  // unknown: rank 0's
  char who[128];
};
struct LaneGreeting {
  uint32_t magic;
  int32_t rank;
  int32_t lane;
  char secret[kSecretBytes];
};

template <typename T>
std::string AsBytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <typename T>
T FromBytes(absl::string_view bytes) {
  T value = {};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
  return value;
}

void CopyText(absl::string_view text, char* out, size_t room) {
  std::memcpy(out, text.data(), std::min(text.size(), room - 1));
}

std::string Name(const Hello& hello) {
  return absl::StrCat(
      "rank ", hello.rank, " (process ", hello.process, " on ",
      absl::string_view(hello.host, strnlen(hello.host, sizeof(hello.host))),
      ")");
}

absl::Status WriteReply(int fd, absl::StatusCode code, absl::string_view text) {
  const ReplyHeader header = {.magic = kReplyMagic,
                              .code = static_cast<int32_t>(code),
                              .text_bytes = static_cast<uint32_t>(text.size())};
  const std::string bytes = absl::StrCat(AsBytes(header), text);
  return WriteAll(fd, bytes.data(), bytes.size(), SteadyNowNs() + kReplyNs);
}

// `heard` is false if nothing that makes sense came.
absl::StatusOr<std::string> ReadReply(int fd, int64_t until_ns, bool* heard) {
  *heard = false;
  ReplyHeader header = {};
  CASTOR_RETURN_IF_ERROR(ReadAll(fd, &header, sizeof(header), until_ns));
  if (header.magic != kReplyMagic || header.text_bytes > kMaxReply) {
    return absl::UnavailableError("what answers is no rank of Castor");
  }
  std::string text(header.text_bytes, '\0');
  CASTOR_RETURN_IF_ERROR(
      ReadAll(fd, text.data(), text.size(), SteadyNowNs() + kReplyNs));
  *heard = true;
  if (header.code == 0) return text;
  return absl::Status(static_cast<absl::StatusCode>(header.code), text);
}

// An address that nobody can reach from another machine, by its name.
bool IsLoopbackName(const std::string& host, const SocketAddress& resolved) {
  return resolved.is_loopback() &&
         (host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0);
}

std::string Seconds(int64_t ns) {
  return absl::StrCat(static_cast<double>(ns / kMsNs) / 1e3, " s");
}

class Rendezvous {
 public:
  Rendezvous(const LaunchEnv& launch, int64_t connect_limit_ns)
      : launch_(launch),
        rank_(launch.rank),
        world_size_(launch.world_size),
        connect_limit_ns_(connect_limit_ns),
        hello_(),
        roster_(launch.world_size) {
    hello_.magic = kHelloMagic;
    hello_.rank = rank_;
    hello_.world_size = world_size_;
    hello_.process = getpid();
    CopyText(launch.run_id, hello_.run_id, sizeof(hello_.run_id));
    gethostname(hello_.host, sizeof(hello_.host) - 1);
    meeting_.lanes.resize(static_cast<size_t>(world_size_) * kNumLanes);
  }

  absl::StatusOr<Meeting> Run() {
    absl::Status status = rank_ == 0 ? Lead() : Follow();
    if (status.ok()) {
      status = ConnectAll();
      status = rank_ == 0 ? Conclude(status) : Report(status);
    }
    CASTOR_RETURN_IF_ERROR(status);
    for (const RosterEntry& entry : roster_) {
      meeting_.who.push_back(entry.who);
    }
    for (WatchPeer& peer : meeting_.controls) {
      peer.who = meeting_.who[peer.rank];
    }
    return std::move(meeting_);
  }

 private:
  std::string Master() const {
    return absl::StrCat(launch_.master_address, ":", launch_.master_port);
  }

  // Rank 0: step 1 and 2.
  absl::Status Lead();
  absl::Status ListenAsMaster();
  absl::Status AwaitAll();
  // OK: it is in, or has been turned away.
  absl::Status Admit(Greeter::News news);
  void TellAll(const absl::Status& status);

  // The others: step 1 and 2.
  absl::Status Follow();
  // One attempt to have rank 0's answer. `final`: another would not help.
  absl::Status ComeIn(const SocketAddress& master, bool* final);

  absl::Status ConnectAll();  // step 3
  absl::Status ConnectLanes(int peer);
  absl::Status AwaitLanes();
  absl::Status Conclude(const absl::Status& mine);  // step 4, rank 0
  absl::Status Report(const absl::Status& mine);    // step 4, the others
  // Rank 0: of one of the others, by its place in controls.
  absl::Status ReadReport(size_t place, int64_t until_ns);

  const LaunchEnv& launch_;
  const int rank_;
  const int world_size_;
  const int64_t connect_limit_ns_;
  Hello hello_;
  Socket listener_;
  std::vector<RosterEntry> roster_;
  char secret_[kSecretBytes] = {};
  Meeting meeting_;
  std::vector<bool> reported_;           // rank 0: by place in controls
  std::optional<absl::Status> verdict_;  // rank 0's, where it came early
};

absl::Status Rendezvous::ListenAsMaster() {
  if (launch_.master_socket >= 0) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    const int fd = launch_.master_socket;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
        !listens) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank 0 was given descriptor ", fd,
                       " to listen at, which does not listen"));
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    listener_ = Socket(fd);
    return absl::OkStatus();
  }
  CASTOR_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                          Resolve(launch_.master_address, launch_.master_port));
  const int backlog = std::max(16, kNumLanes * world_size_);
  absl::StatusOr<Socket> listener =
      IsLoopbackName(launch_.master_address, addresses[0])
          ? ListenAt(addresses[0], backlog)
          : ListenOnAll(launch_.master_port, backlog);
  if (absl::IsAlreadyExists(listener.status())) {
    return absl::AlreadyExistsError(absl::StrCat(
        "rank 0 cannot listen at port ", launch_.master_port,
        ": another program, perhaps another run, has it; choose another "
        "(MASTER_PORT)"));
  }
  CASTOR_RETURN_IF_ERROR(Annotate("rank 0", listener.status()));
  listener_ = *std::move(listener);
  return absl::OkStatus();
}

absl::Status Rendezvous::Lead() {
  CASTOR_RETURN_IF_ERROR(ListenAsMaster());
  if (getrandom(secret_, sizeof(secret_), 0) != sizeof(secret_)) {
    return SocketError("no random numbers");
  }
  CopyText(Name(hello_), roster_[0].who, sizeof(RosterEntry::who));
  const absl::Status status = AwaitAll();
  if (!status.ok()) {
    TellAll(status);
    return status;
  }
  std::string text(secret_, sizeof(secret_));
  for (const RosterEntry& entry : roster_)
    absl::StrAppend(&text, AsBytes(entry));
  for (const WatchPeer& peer : meeting_.controls) {
    // Whoever does not get it will not report either.
    WriteReply(peer.socket.fd(), absl::StatusCode::kOk, text).IgnoreError();
  }
  reported_.assign(meeting_.controls.size(), false);
  return absl::OkStatus();
}

void Rendezvous::TellAll(const absl::Status& status) {
  for (const WatchPeer& peer : meeting_.controls) {
    WriteReply(peer.socket.fd(), status.code(), status.message()).IgnoreError();
  }
}

absl::Status Rendezvous::AwaitAll() {
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns_;
  Greeter greeter(listener_.fd(), sizeof(Hello));
  while (static_cast<int>(meeting_.controls.size()) + 1 < world_size_) {
    std::vector<int> fds;
    for (const WatchPeer& peer : meeting_.controls) {
      fds.push_back(peer.socket.fd());
    }
    std::optional<Greeter::News> news = greeter.Next(fds, until_ns);
    if (!news.has_value()) {
      std::string missing;
      for (int rank = 1; rank < world_size_; ++rank) {
        if (roster_[rank].who[0] != 0) continue;
        absl::StrAppend(&missing, missing.empty() ? "" : ", ", rank);
      }
      return absl::UnavailableError(absl::StrCat(
          "no connection from rank ", missing, " of ", world_size_, " within ",
          Seconds(connect_limit_ns_), " at rank 0's address ", Master(),
          ": was it started, and can it reach that address?"));
    }
    if (news->readable >= 0) {
      // They have nothing to say yet.
      return absl::UnavailableError(
          absl::StrCat(roster_[meeting_.controls[news->readable].rank].who,
                       " died before all ranks had come"));
    }
    CASTOR_RETURN_IF_ERROR(Admit(*std::move(news)));
  }
  return absl::OkStatus();
}

absl::Status Rendezvous::Admit(Greeter::News news) {
  const Hello hello = FromBytes<Hello>(news.greeting);
  const int fd = news.socket.fd();
  if (hello.magic != kHelloMagic) return absl::OkStatus();
  if (std::memcmp(hello.run_id, hello_.run_id, sizeof(hello.run_id)) != 0) {
    // It may be early for a run that comes after this one, so it tries again.
    WriteReply(fd, absl::StatusCode::kAborted,
               absl::StrCat("what listens at ", Master(), " is ", Name(hello_),
                            " of another run"))
        .IgnoreError();
    return absl::OkStatus();
  }
  absl::Status status;
  if (hello.world_size != world_size_) {
    status = absl::InvalidArgumentError(
        absl::StrCat(Name(hello), " was started as one of ", hello.world_size,
                     " ranks, ", Name(hello_), " as one of ", world_size_));
  } else if (hello.rank < 0 || hello.rank >= world_size_) {
    return absl::OkStatus();  // no program of ours
  } else if (roster_[hello.rank].who[0] != 0) {
    status = absl::InvalidArgumentError(
        absl::StrCat("two processes were started as the same rank: ",
                     roster_[hello.rank].who, " and ", Name(hello),
                     "; each needs a RANK of its own"));
  }
  if (!status.ok()) {
    WriteReply(fd, status.code(), status.message()).IgnoreError();
    return status;
  }
  RosterEntry& entry = roster_[hello.rank];
  CopyText(Name(hello), entry.who, sizeof(entry.who));
  entry.listener = hello.listener;
  meeting_.controls.push_back(
      {.rank = hello.rank, .socket = std::move(news.socket), .who = {}});
  return absl::OkStatus();
}

absl::Status Rendezvous::Follow() {
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns_;
  while (true) {
    absl::Status status;
    bool final = false;
    const auto addresses = Resolve(launch_.master_address, launch_.master_port);
    status = addresses.status();
    if (addresses.ok()) {
      for (const SocketAddress& address : *addresses) {
        status = ComeIn(address, &final);
        if (status.ok() || final) return status;
      }
    }
    if (SteadyNowNs() + kRetryNs > until_ns) {
      return absl::Status(
          status.code(),
          absl::StrCat("rank ", rank_, " did not find rank 0 at ", Master(),
                       " within ", Seconds(connect_limit_ns_), ": ",
                       status.message()));
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kRetryNs));
  }
}

absl::Status Rendezvous::ComeIn(const SocketAddress& master, bool* final) {
  CASTOR_ASSIGN_OR_RETURN(
      Socket control,
      ConnectTo(master,
                SteadyNowNs() + std::min(kAttemptNs, connect_limit_ns_)));
  SocketAddress local = LocalAddress(control.fd());
  local.set_port(0);
  const int backlog = std::max(16, kNumLanes * world_size_);
  CASTOR_ASSIGN_OR_RETURN(listener_,
                          IsLoopbackName(launch_.master_address, master)
                              ? ListenAt(local, backlog)
                              : ListenOnAll(0, backlog));
  local.set_port(LocalAddress(listener_.fd()).port());
  hello_.listener = local;
  CASTOR_RETURN_IF_ERROR(WriteAll(control.fd(), &hello_, sizeof(hello_),
                                  SteadyNowNs() + kReplyNs));
  // Rank 0's own limit began before, and a rank that comes late is the others'
  // news, too.
  bool heard = false;
  const absl::StatusOr<std::string> reply = ReadReply(
      control.fd(), SteadyNowNs() + connect_limit_ns_ + kReplyNs, &heard);
  *final = heard && reply.status().code() != absl::StatusCode::kAborted;
  CASTOR_RETURN_IF_ERROR(reply.status());
  if (reply->size() != kSecretBytes + roster_.size() * sizeof(RosterEntry)) {
    return absl::FailedPreconditionError(
        "rank 0 tells of the ranks in another way: all ranks must run the same "
        "program");
  }
  std::memcpy(secret_, reply->data(), kSecretBytes);
  std::memcpy(roster_.data(), reply->data() + kSecretBytes,
              reply->size() - kSecretBytes);
  meeting_.controls.push_back(
      {.rank = 0, .socket = std::move(control), .who = {}});
  return absl::OkStatus();
}

absl::Status Rendezvous::ConnectAll() {
  for (int peer = 0; peer < rank_; ++peer) {
    CASTOR_RETURN_IF_ERROR(Annotate(
        absl::StrCat(roster_[rank_].who, " cannot reach ", roster_[peer].who),
        ConnectLanes(peer)));
  }
  return AwaitLanes();
}

// Somebody listens there, but a network that has just come back may lose the
// attempts that were made as it did: those that nobody answered are made again.
// A refusal is an answer.
absl::StatusOr<Socket> ConnectBy(const SocketAddress& address,
                                 int64_t until_ns) {
  while (true) {
    const int64_t attempt_ns = std::min(until_ns, SteadyNowNs() + kAttemptNs);
    absl::StatusOr<Socket> socket = ConnectTo(address, attempt_ns);
    const int64_t now_ns = SteadyNowNs();
    if (socket.ok() || now_ns < attempt_ns || now_ns >= until_ns) return socket;
  }
}

absl::Status Rendezvous::ConnectLanes(int peer) {
  const SocketAddress master = PeerAddress(meeting_.controls[0].socket.fd());
  SocketAddress address = peer == 0 ? master : roster_[peer].listener;
  if (peer != 0 && address.is_loopback()) {
    const int port = address.port();
    address = master;
    address.set_port(port);
  }
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns_;
  for (int lane = 0; lane < kNumLanes; ++lane) {
    CASTOR_ASSIGN_OR_RETURN(Socket socket, ConnectBy(address, until_ns));
    LaneGreeting greeting = {
        .magic = kLaneMagic, .rank = rank_, .lane = lane, .secret = {}};
    std::memcpy(greeting.secret, secret_, sizeof(secret_));
    CASTOR_RETURN_IF_ERROR(WriteAll(socket.fd(), &greeting, sizeof(greeting),
                                    SteadyNowNs() + kReplyNs));
    meeting_.lanes[peer * kNumLanes + lane] = std::move(socket);
  }
  return absl::OkStatus();
}

absl::Status Rendezvous::AwaitLanes() {
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns_;
  Greeter greeter(listener_.fd(), sizeof(LaneGreeting));
  int missing = (world_size_ - 1 - rank_) * kNumLanes;
  while (missing > 0) {
    std::vector<int> fds;
    for (size_t i = 0; i < meeting_.controls.size(); ++i) {
      const bool silent = rank_ == 0 && reported_[i];
      fds.push_back(silent ? -1 : meeting_.controls[i].socket.fd());
    }
    std::optional<Greeter::News> news = greeter.Next(fds, until_ns);
    if (!news.has_value()) {
      std::string text;
      for (int peer = rank_ + 1; peer < world_size_; ++peer) {
        if (meeting_.lanes[peer * kNumLanes] &&
            meeting_.lanes[peer * kNumLanes + 1]) {
          continue;
        }
        absl::StrAppend(&text, text.empty() ? "" : ", ", roster_[peer].who);
      }
      return absl::UnavailableError(
          absl::StrCat(roster_[rank_].who, " got no connection from ", text,
                       " within ", Seconds(connect_limit_ns_)));
    }
    if (news->readable >= 0 && rank_ == 0) {
      CASTOR_RETURN_IF_ERROR(
          ReadReport(news->readable, SteadyNowNs() + kReplyNs));
      continue;
    }
    if (news->readable >= 0) {
      // Rank 0 has something to say before all are done, so it is bad.
      bool heard = false;
      const absl::Status status = ReadReply(meeting_.controls[0].socket.fd(),
                                            SteadyNowNs() + kReplyNs, &heard)
                                      .status();
      verdict_ =
          heard ? status
                : absl::UnavailableError(absl::StrCat(
                      roster_[0].who, " died while the ranks were connecting"));
      return *verdict_;
    }
    const LaneGreeting greeting = FromBytes<LaneGreeting>(news->greeting);
    if (greeting.magic != kLaneMagic || greeting.rank <= rank_ ||
        greeting.rank >= world_size_ || greeting.lane < 0 ||
        greeting.lane >= kNumLanes ||
        std::memcmp(greeting.secret, secret_, sizeof(secret_)) != 0) {
      continue;
    }
    Socket& socket = meeting_.lanes[greeting.rank * kNumLanes + greeting.lane];
    if (socket) continue;
    socket = std::move(news->socket);
    --missing;
  }
  return absl::OkStatus();
}

absl::Status Rendezvous::ReadReport(size_t place, int64_t until_ns) {
  bool heard = false;
  const absl::Status status =
      ReadReply(meeting_.controls[place].socket.fd(), until_ns, &heard)
          .status();
  reported_[place] = true;
  if (heard) return status;
  return absl::UnavailableError(absl::StrCat(
      roster_[meeting_.controls[place].rank].who,
      " died while the ranks were connecting: ", status.message()));
}

absl::Status Rendezvous::Conclude(const absl::Status& mine) {
  absl::Status status = mine;
  // Each of them has begun its own limit by now.
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns_ + kReplyNs;
  for (size_t i = 0; i < meeting_.controls.size() && status.ok(); ++i) {
    if (!reported_[i]) status = ReadReport(i, until_ns);
  }
  TellAll(status);
  return status;
}

absl::Status Rendezvous::Report(const absl::Status& mine) {
  if (verdict_.has_value()) return *verdict_;
  const int fd = meeting_.controls[0].socket.fd();
  WriteReply(fd, mine.code(), mine.message()).IgnoreError();
  bool heard = false;
  const absl::Status status =
      ReadReply(fd, SteadyNowNs() + 2 * connect_limit_ns_ + kReplyNs, &heard)
          .status();
  if (heard) return status;
  if (!mine.ok()) return mine;
  return absl::UnavailableError(
      absl::StrCat(roster_[0].who, " died while the ranks were connecting"));
}

}  // namespace

absl::StatusOr<Meeting> Meet(const LaunchEnv& launch,
                             int64_t connect_limit_ns) {
  if (launch.master_address.empty() || launch.master_port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", launch.rank, " of ", launch.world_size,
                     ", started by ", LauncherName(launch.launcher),
                     ", does not know where rank 0 is: set MASTER_ADDR and "
                     "MASTER_PORT, or start the ranks by castor launch"));
  }
  return Rendezvous(launch, connect_limit_ns).Run();
}

}  // namespace castor
