#include "device/comm/tcp/rendezvous.h"

#include <fcntl.h>
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
#include "base/host_name.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "device/comm/greeter.h"
#include "device/comm/handshake.h"
#include "device/comm/secret.h"
#include "device/comm/tcp/sealed_words.h"

namespace castor {
namespace {

constexpr int64_t kMsNs = 1'000'000;
constexpr int64_t kRetryNs = 100 * kMsNs;
constexpr int64_t kAttemptNs = 5'000 * kMsNs;
// The longest time that a few bytes may take to or from a rank that waits for
// them.
constexpr int64_t kReplyNs = 10'000 * kMsNs;
// The time for which a rank tries on that finds another run's rank 0 in the
// place of its own: a former run may be about to end.
constexpr int64_t kOtherRunNs = 3'000 * kMsNs;

// Both cross the network as they are, between equal machines. A rank adds this
// to its proof:
struct Introduction {
  int32_t world_size;
  int32_t process;
  char host[64];
};
struct RosterEntry {
  SocketAddress listener;  // unknown: rank 0's
  char who[128];
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

std::string Name(int rank, const Introduction& introduction) {
  const absl::string_view host(
      introduction.host, strnlen(introduction.host, sizeof(introduction.host)));
  return absl::StrCat("rank ", rank, " (process ", introduction.process, " on ",
                      Printable(host), ")");
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
        all_here_(launch.local_size == launch.world_size),
        connect_limit_ns_(connect_limit_ns),
        mine_(),
        terms_({.key = Hmac(launch.secret, "castor rendezvous"),
                .run_id = launch.run_id,
                .role = ConnectionRole::kControl,
                .note_bytes = sizeof(Introduction)}),
        roster_(launch.world_size) {
    mine_.world_size = world_size_;
    mine_.process = getpid();
    CopyText(HostName(), mine_.host, sizeof(mine_.host));
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
  int Backlog() const { return std::max(64, 2 * kNumLanes * world_size_); }
  // Returns the size of rank 0's message when all have come.
  size_t RosterBytes() const {
    return kKeyBytes + roster_.size() * sizeof(RosterEntry);
  }

  // Rank 0: step 1 and 2.
  absl::Status Lead();
  absl::Status ListenAsMaster();
  absl::Status AwaitAll();
  // OK: the rank is in, or has been turned away.
  absl::Status Admit(Greeter::News news);
  // The first failure to do so.
  absl::Status TellAll(const absl::Status& status, absl::string_view text);

  // The others: step 1 and 2.
  absl::Status Follow();
  // One attempt to have rank 0's answer. `final`: another would not help.
  absl::Status ComeIn(const SocketAddress& master, bool* final);
  absl::Status ListenBeside(const Socket& control, const SocketAddress& master,
                            SocketAddress* listener);

  // Step 3. `run_key`: a random number of rank 0's for this meeting alone.
  void DeriveLanesKey(absl::string_view run_key);
  absl::Status ConnectAll();
  absl::Status ConnectLane(Greeter* greeter, int peer, int lane,
                           int64_t until_ns);
  absl::Status AwaitLanes(Greeter* greeter, int64_t until_ns);
  absl::Status Conclude(const absl::Status& mine);  // step 4, rank 0
  absl::Status Report(const absl::Status& mine);    // step 4, the others
  // Rank 0: of one of the others, by its place in controls.
  absl::Status ReadReport(size_t place, int64_t until_ns);

  const LaunchEnv& launch_;
  const int rank_;
  const int world_size_;
  const bool all_here_;  // on this machine, says the launcher
  const int64_t connect_limit_ns_;
  Introduction mine_;
  const HandshakeTerms terms_;
  HandshakeTerms lane_terms_;
  Socket listener_;
  std::vector<RosterEntry> roster_;
  Meeting meeting_;
  std::vector<SealedWords> words_;       // by place in controls
  std::vector<bool> reported_;           // rank 0: the same
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
  const bool others_reach_it =
      addresses[0].is_loopback()
          ? all_here_ || IsLoopbackName(launch_.master_address, addresses[0])
          : addresses.size() == 1;
  absl::StatusOr<Socket> listener =
      others_reach_it ? ListenAtOrOnAll(addresses[0], Backlog())
                      : ListenOnAll(launch_.master_port, Backlog());
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
  CASTOR_ASSIGN_OR_RETURN(const std::string run_key, RandomKey());
  DeriveLanesKey(run_key);
  CopyText(Name(0, mine_), roster_[0].who, sizeof(RosterEntry::who));
  const absl::Status status = AwaitAll();
  std::string text = run_key;
  for (const RosterEntry& entry : roster_) {
    absl::StrAppend(&text, AsBytes(entry));
  }
  const absl::Status told = TellAll(status, text);
  reported_.assign(meeting_.controls.size(), false);
  return status.ok() ? told : status;
}

absl::Status Rendezvous::TellAll(const absl::Status& status,
                                 absl::string_view text) {
  absl::Status told;
  for (size_t i = 0; i < meeting_.controls.size(); ++i) {
    told.Update(Annotate(
        absl::StrCat(roster_[meeting_.controls[i].rank].who,
                     " cannot be told more"),
        words_[i].Say(meeting_.controls[i].socket.fd(), status, text)));
  }
  return told;
}

absl::Status Rendezvous::AwaitAll() {
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns_;
  Greeter greeter(listener_.fd(), terms_, 0);
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
          ": was it started, and can it reach that address?",
          greeter.StrangersText()));
    }
    if (news->what == Greeter::News::What::kReadable) {
      // The other ranks have nothing to say yet.
      return absl::UnavailableError(
          absl::StrCat(roster_[meeting_.controls[news->also].rank].who,
                       " died before all ranks had come"));
    }
    CASTOR_RETURN_IF_ERROR(Admit(*std::move(news)));
  }
  meeting_.strangers = greeter.strangers();
  meeting_.strangers_text = greeter.StrangersText();
  return absl::OkStatus();
}

absl::Status Rendezvous::Admit(Greeter::News news) {
  const Claim& claim = news.claim;
  const auto theirs = FromBytes<Introduction>(news.note);
  const std::string name = Name(claim.rank, theirs);
  const int fd = news.socket.fd();
  const bool remote = IsRemote(fd);
  SealedWords words(news.session_key, /*leads=*/true, 0);
  // A rank that needs no secret must at least be where the launcher says all
  // are.
  if (remote && all_here_ && launch_.secret.empty()) {
    words
        .Say(fd, absl::FailedPreconditionError(absl::StrCat(
                     name, " was turned away: rank 0's launcher says that all ",
                     world_size_,
                     " ranks are on rank 0's machine, and there "
                     "is no secret (CASTOR_SECRET) to prove otherwise")))
        .IgnoreError();
    return absl::OkStatus();
  }
  absl::Status status;
  if (theirs.world_size != world_size_) {
    status = absl::InvalidArgumentError(
        absl::StrCat(name, " was started as one of ", theirs.world_size,
                     " ranks, ", roster_[0].who, " as one of ", world_size_));
  } else if (claim.rank < 1 || claim.rank >= world_size_) {
    return absl::OkStatus();  // no program of ours
  } else if (roster_[claim.rank].who[0] != 0) {
    status = absl::InvalidArgumentError(
        absl::StrCat("two processes were started as the same rank: ",
                     roster_[claim.rank].who, " and ", name,
                     "; each needs a RANK of its own"));
  }
  if (!status.ok()) {
    words.Say(fd, status).IgnoreError();
    return status;
  }
  meeting_.several_machines |= remote;
  RosterEntry& entry = roster_[claim.rank];
  CopyText(name, entry.who, sizeof(entry.who));
  entry.listener = claim.listener;
  words_.push_back(std::move(words));
  meeting_.controls.push_back(
      {.rank = claim.rank, .socket = std::move(news.socket), .who = {}});
  return absl::OkStatus();
}

absl::Status Rendezvous::Follow() {
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns_;
  // The reason why rank 0 was not believed counts, whatever comes later: rank 0
  // may have ended since, for want of this rank.
  absl::Status disbelief;
  int64_t give_up_ns = until_ns;
  while (true) {
    absl::Status status;
    bool final = false;
    const auto addresses = Resolve(launch_.master_address, launch_.master_port);
    status = addresses.status();
    if (addresses.ok()) {
      for (const SocketAddress& address : *addresses) {
        status = ComeIn(address, &final);
        if (status.ok() || final) return status;
        if (absl::IsFailedPrecondition(status) && disbelief.ok()) {
          disbelief = status;
          give_up_ns = std::min(until_ns, SteadyNowNs() + kOtherRunNs);
        }
      }
    }
    if (SteadyNowNs() + kRetryNs > give_up_ns) {
      if (!disbelief.ok()) {
        return absl::FailedPreconditionError(
            absl::StrCat("rank ", rank_, " cannot join the run at ", Master(),
                         ": ", disbelief.message()));
      }
      return absl::Status(
          status.code(),
          absl::StrCat("rank ", rank_, " did not find rank 0 at ", Master(),
                       " within ", Seconds(connect_limit_ns_), ": ",
                       status.message()));
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kRetryNs));
  }
}

absl::Status Rendezvous::ListenBeside(const Socket& control,
                                      const SocketAddress& master,
                                      SocketAddress* listener) {
  SocketAddress address = LocalAddress(control.fd());
  const bool loopback = address.is_loopback();
  // A rank that is reached over loopback shares rank 0's machine, and its
  // addresses.
  if (loopback) address = PeerAddress(control.fd());
  address.set_port(0);
  const bool others_reach_it =
      !loopback || all_here_ || IsLoopbackName(launch_.master_address, master);
  CASTOR_ASSIGN_OR_RETURN(listener_, others_reach_it
                                         ? ListenAtOrOnAll(address, Backlog())
                                         : ListenOnAll(0, Backlog()));
  address.set_port(LocalAddress(listener_.fd()).port());
  *listener = address;
  return absl::OkStatus();
}

absl::Status Rendezvous::ComeIn(const SocketAddress& master, bool* final) {
  CASTOR_ASSIGN_OR_RETURN(
      Socket control,
      ConnectTo(master,
                SteadyNowNs() + std::min(kAttemptNs, connect_limit_ns_)));
  Claim claim;
  claim.rank = rank_;
  CASTOR_RETURN_IF_ERROR(ListenBeside(control, master, &claim.listener));
  CASTOR_ASSIGN_OR_RETURN(std::string nonce, RandomKey());
  Handshake handshake =
      Handshake::Connecting(terms_, std::move(nonce), claim, AsBytes(mine_));
  // Rank 0's own limit began before, and the other ranks, too, wait for one
  // that comes late.
  const int64_t until_ns = SteadyNowNs() + connect_limit_ns_ + kReplyNs;
  const absl::Status shaken = ShakeHands(control.fd(), &handshake, until_ns);
  if (absl::IsFailedPrecondition(shaken)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "what answers there does not prove that it is rank 0 of this run: ",
        launch_.secret.empty()
            ? "this rank has no secret, and rank 0 may have one"
            : "the secrets differ",
        " (CASTOR_SECRET, CASTOR_SECRET_FILE: the same for all ranks), or "
        "it is of another run"));
  }
  CASTOR_RETURN_IF_ERROR(shaken);
  SealedWords words(handshake.SessionKey(), /*leads=*/false, RosterBytes());
  bool heard = false;
  const absl::StatusOr<std::string> reply =
      words.Hear(control.fd(), until_ns, &heard);
  *final = heard;
  CASTOR_RETURN_IF_ERROR(reply.status());
  if (reply->size() != RosterBytes()) {
    return absl::FailedPreconditionError(
        "rank 0 tells of the ranks in another way: all ranks must run the same "
        "program");
  }
  DeriveLanesKey(absl::string_view(*reply).substr(0, kKeyBytes));
  std::memcpy(roster_.data(), reply->data() + kKeyBytes,
              reply->size() - kKeyBytes);
  for (RosterEntry& entry : roster_) entry.who[sizeof(entry.who) - 1] = 0;
  words_.push_back(std::move(words));
  meeting_.controls.push_back(
      {.rank = 0, .socket = std::move(control), .who = {}});
  return absl::OkStatus();
}

void Rendezvous::DeriveLanesKey(absl::string_view run_key) {
  // The run's own number alone goes over the network.
  lane_terms_ = {
      .key = Hmac(launch_.secret, absl::StrCat("castor lanes ", run_key)),
      .run_id = launch_.run_id,
      .role = ConnectionRole::kLane,
      .note_bytes = 0};
}

absl::Status Rendezvous::ConnectAll() {
  Greeter greeter(listener_.fd(), lane_terms_, rank_);
  const int64_t connect_until_ns = SteadyNowNs() + connect_limit_ns_;
  for (int peer = 0; peer < rank_; ++peer) {
    for (int lane = 0; lane < kNumLanes; ++lane) {
      CASTOR_RETURN_IF_ERROR(
          ConnectLane(&greeter, peer, lane, connect_until_ns));
    }
  }
  return AwaitLanes(&greeter, SteadyNowNs() + connect_limit_ns_);
}

// Connects to a rank that listens there. A network that has just come back may
// lose the attempts that were made as it did: those that nobody answered are
// made again. A refusal is an answer.
absl::StatusOr<Socket> ConnectBy(const SocketAddress& address,
                                 int64_t until_ns) {
  while (true) {
    const int64_t attempt_ns = std::min(until_ns, SteadyNowNs() + kAttemptNs);
    absl::StatusOr<Socket> socket = ConnectTo(address, attempt_ns);
    const int64_t now_ns = SteadyNowNs();
    if (socket.ok() || now_ns < attempt_ns || now_ns >= until_ns) return socket;
  }
}

absl::Status Rendezvous::ConnectLane(Greeter* greeter, int peer, int lane,
                                     int64_t until_ns) {
  const SocketAddress master = PeerAddress(meeting_.controls[0].socket.fd());
  SocketAddress address = peer == 0 ? master : roster_[peer].listener;
  if (peer != 0 && address.is_loopback()) {
    const int port = address.port();
    address = master;
    address.set_port(port);
  }
  absl::StatusOr<Socket> socket = ConnectBy(address, until_ns);
  if (!socket.ok()) {
    return Annotate(
        absl::StrCat(roster_[rank_].who, " cannot reach ", roster_[peer].who),
        socket.status());
  }
  Claim claim;
  claim.role = ConnectionRole::kLane;
  claim.lane = lane;
  claim.rank = rank_;
  claim.to = peer;
  return greeter->Greet(*std::move(socket), claim, "");
}

absl::Status Rendezvous::AwaitLanes(Greeter* greeter, int64_t until_ns) {
  int missing = (world_size_ - 1) * kNumLanes;
  while (missing > 0) {
    std::vector<int> fds;
    for (size_t i = 0; i < meeting_.controls.size(); ++i) {
      const bool silent = rank_ == 0 && reported_[i];
      fds.push_back(silent ? -1 : meeting_.controls[i].socket.fd());
    }
    std::optional<Greeter::News> news = greeter->Next(fds, until_ns);
    if (!news.has_value()) {
      std::string text;
      for (int peer = 0; peer < world_size_; ++peer) {
        if (peer == rank_ || (meeting_.lanes[peer * kNumLanes] &&
                              meeting_.lanes[peer * kNumLanes + 1])) {
          continue;
        }
        absl::StrAppend(&text, text.empty() ? "" : ", ", roster_[peer].who);
      }
      return absl::UnavailableError(absl::StrCat(
          roster_[rank_].who, " got no connection from ", text, " within ",
          Seconds(connect_limit_ns_), greeter->StrangersText()));
    }
    using What = Greeter::News::What;
    if (news->what == What::kReadable && rank_ == 0) {
      CASTOR_RETURN_IF_ERROR(ReadReport(news->also, SteadyNowNs() + kReplyNs));
      continue;
    }
    if (news->what == What::kReadable) {
      // Rank 0 says something before all are done: it is an error.
      bool heard = false;
      const absl::Status status = words_[0]
                                      .Hear(meeting_.controls[0].socket.fd(),
                                            SteadyNowNs() + kReplyNs, &heard)
                                      .status();
      verdict_ =
          heard ? status
                : absl::UnavailableError(absl::StrCat(
                      roster_[0].who, " died while the ranks were connecting"));
      return *verdict_;
    }
    const Claim& claim = news->claim;
    if (news->what == What::kFailed) {
      // The connection was turned away among strangers, or met one in the
      // other's place.
      std::this_thread::sleep_for(std::chrono::nanoseconds(kRetryNs));
      CASTOR_RETURN_IF_ERROR(
          ConnectLane(greeter, claim.to, claim.lane, until_ns));
      continue;
    }
    const bool came = news->what == What::kCame;
    const int peer = came ? claim.rank : claim.to;
    if (came &&
        (peer <= rank_ || peer >= world_size_ || claim.lane >= kNumLanes)) {
      continue;
    }
    // If there are two connections for one lane, the last one counts: the other
    // end holds it, too.
    Socket& socket = meeting_.lanes[peer * kNumLanes + claim.lane];
    if (!socket) --missing;
    socket = std::move(news->socket);
  }
  return absl::OkStatus();
}

absl::Status Rendezvous::ReadReport(size_t place, int64_t until_ns) {
  bool heard = false;
  const absl::Status status =
      words_[place]
          .Hear(meeting_.controls[place].socket.fd(), until_ns, &heard)
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
  const absl::Status told = TellAll(status, "");
  return status.ok() ? told : status;
}

absl::Status Rendezvous::Report(const absl::Status& mine) {
  if (verdict_.has_value()) return *verdict_;
  const int fd = meeting_.controls[0].socket.fd();
  const absl::Status said = words_[0].Say(fd, mine);
  if (mine.ok() && !said.ok()) {
    return Annotate(absl::StrCat(roster_[0].who, " cannot be told more"), said);
  }
  bool heard = false;
  const absl::Status status =
      words_[0]
          .Hear(fd, SteadyNowNs() + 2 * connect_limit_ns_ + kReplyNs, &heard)
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
