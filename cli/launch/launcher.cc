#include "cli/launch/launcher.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/host_name.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "cli/launch/blocked_signals.h"
#include "cli/launch/remote_line.h"
#include "cli/launch/try_hosts.h"
#include "device/comm/launch_env.h"
#include "device/comm/secret.h"
#include "device/comm/socket.h"

namespace castor::cli {
namespace {

constexpr char kProgram[] = "castor launch";

// waitpid that a signal does not end.
pid_t WaitFor(pid_t process, int* status, int options) {
  pid_t ended;
  do {
    ended = waitpid(process, status, options);
  } while (ended < 0 && errno == EINTR);
  return ended;
}

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int kUserError = 2;
constexpr int kShellFailed = 255;  // the remote shell's own failure, as ssh's
// Signals that come closer together are one wish.
constexpr int64_t kSameWishNs = kSecondNs;
// A save writes more than these bytes; a rank's messages are less.
constexpr int64_t kSaveBytes = 1 << 16;

std::string HostOf(const std::string& host) {
  return host.substr(host.find('@') == std::string::npos ? 0
                                                         : host.find('@') + 1);
}

// The exit code of a rank that a signal has interrupted.
bool IsInterruption(int code) {
  return code == 128 + SIGHUP || code == 128 + SIGINT || code == 128 + SIGTERM;
}

struct Child {
  pid_t process = -1;
  bool remote = false;
  Socket input;  // of a remote shell: signals' names
  bool running = true;
};

// Returns the bytes that a process has written to files and the like so far; 0:
// it has ended.
int64_t WrittenBytes(pid_t process) {
  std::ifstream in(absl::StrCat("/proc/", process, "/io"));
  std::string name;
  int64_t value = 0;
  while (in >> name >> value) {
    if (name == "wchar:") return value;
  }
  return 0;
}

// Returns true if one of its threads waits for a disk, as one that syncs does.
bool WaitsForDisk(pid_t process) {
  std::error_code error;
  std::filesystem::directory_iterator threads(
      absl::StrCat("/proc/", process, "/task"), error);
  for (; !error && threads != std::filesystem::directory_iterator();
       threads.increment(error)) {
    std::ifstream in(threads->path() / "stat");
    std::string line;
    if (std::getline(in, line) && absl::StrContains(line, ") D ")) return true;
  }
  return false;
}

class Run {
 public:
  explicit Run(const LaunchPlan& plan)
      : plan_(plan), environment_(CurrentEnvironment()) {
    // These belong to a launch around this one, or to ranks that are started
    // otherwise.
    environment_.erase("CASTOR_MASTER_SOCKET");
    environment_.erase("CASTOR_SECRET_FILE");
  }
  ~Run() {
    for (Child& child : children_) {
      if (child.running) kill(-child.process, SIGKILL);
    }
    for (Child& child : children_) {
      if (child.running) WaitFor(child.process, nullptr, 0);
    }
  }

  absl::Status Prepare();
  // OK: every other machine answers, and has the program. Otherwise as
  // TryHosts.
  absl::Status TryOtherMachines(int* signal) const;
  absl::Status StartAll();
  int AwaitAll();

 private:
  std::map<std::string, std::string> Variables(int rank) const;
  absl::Status Start(int rank);
  // Runs in the child and does not come back. Says at `error_fd` what went
  // wrong.
  void BecomeRank(int rank, std::vector<std::string> words,
                  const std::map<std::string, std::string>& environment,
                  int input, int error_fd, pid_t launcher);
  void Signal(Child& child, int signal);
  void SignalAll(int signal);
  void TakeEnded();
  void NoteFailure(int rank, int status);
  void TellOfUntoldFailure() const;
  void TakeWish(int signal);
  // Returns true if a rank has written much since this was last called.
  bool Saves();
  void TakeStep();

  const LaunchPlan& plan_;
  std::map<std::string, std::string> environment_;
  BlockedSignals signals_;
  std::vector<bool> here_;                      // by rank
  std::map<std::string, std::string> carried_;  // to other machines
  std::string run_id_, secret_, master_address_, directory_;
  int master_port_ = 0;
  Socket listener_;
  std::vector<Child> children_;  // by rank
  int running_ = 0;
  int failed_ = -1;      // the first that failed
  int code_ = 0;         // its
  bool killed_ = false;  // it was ended by a signal
  bool users_error_ = false;
  int interrupted_code_ = 0;  // of ranks that saved and ended for a signal
  bool first_well_ = false;   // rank 0 has ended with 0
  // True if the user has sent a signal: a rank that ends by it has not failed.
  bool signalled_ = false;
  int64_t signalled_ns_ = 0;
  int64_t written_bytes_ = 0;  // by all ranks here, as they were last asked
  std::optional<int64_t> next_step_ns_;  // towards those that do not end
  int steps_ = 0;
};

absl::Status Run::Prepare() {
  CASTOR_ASSIGN_OR_RETURN(carried_,
                          VariablesToCarry(environment_, plan_.exported));
  CASTOR_ASSIGN_OR_RETURN(run_id_, MakeSecret());
  run_id_.resize(32);  // as good as unique; it is no secret
  CASTOR_ASSIGN_OR_RETURN(secret_, MakeSecret());
  char directory[PATH_MAX + 1] = "";
  if (getcwd(directory, PATH_MAX) == nullptr) {
    return SocketError("the working directory");
  }
  directory_ = directory;
  std::map<std::string, bool> known;
  for (const RankPlace& place : plan_.ranks) {
    if (known.count(place.host) == 0) {
      known[place.host] = IsThisMachine(place.host);
    }
    here_.push_back(known[place.host]);
  }
  const bool all_here =
      std::all_of(here_.begin(), here_.end(), [](bool here) { return here; });
  const std::string first = HostOf(plan_.ranks[0].host);
  const auto resolved = Resolve(first, 0);
  const bool only_here = resolved.ok() && (*resolved)[0].is_loopback();
  master_address_ = all_here    ? "127.0.0.1"
                    : !here_[0] ? first
                    : only_here ? HostName()
                                : first;
  master_port_ = plan_.master_port;
  if (!here_[0]) {
    if (master_port_ != 0) return absl::OkStatus();
    // Below those that systems give out by themselves.
    uint16_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
      return SocketError("no random numbers");
    }
    master_port_ = 20'000 + random % 12'000;
    return absl::OkStatus();
  }
  const int backlog = 2 * static_cast<int>(plan_.ranks.size()) + 16;
  SocketAddress at = Loopback();
  // Elsewhere a name that means loopback here means another address of this
  // machine's.
  const bool one = resolved.ok() && resolved->size() == 1 && !only_here;
  if (!all_here && one) at = (*resolved)[0];
  at.set_port(master_port_);
  auto listener = all_here || one ? ListenAtOrOnAll(at, backlog)
                                  : ListenOnAll(master_port_, backlog);
  CASTOR_RETURN_IF_ERROR(Annotate(
      master_port_ == 0 ? "rank 0" : "--master-port", listener.status()));
  listener_ = *std::move(listener);
  master_port_ = LocalAddress(listener_.fd()).port();
  return absl::OkStatus();
}

absl::Status Run::TryOtherMachines(int* signal) const {
  TriedHosts tried = {.hosts = {},
                      .remote_shell = plan_.remote_shell,
                      .directory = directory_,
                      .program = plan_.program[0],
                      .limit_ns = plan_.host_patience_ns};
  std::set<std::string> seen;
  for (size_t rank = 0; rank < here_.size(); ++rank) {
    const std::string& host = plan_.ranks[rank].host;
    if (!here_[rank] && seen.insert(host).second) tried.hosts.push_back(host);
  }
  return TryHosts(tried, signals_, signal);
}

std::map<std::string, std::string> Run::Variables(int rank) const {
  const RankPlace& place = plan_.ranks[rank];
  std::map<std::string, std::string> variables = {
      {"CASTOR_RUN_ID", run_id_},
      {"CASTOR_SECRET", secret_},
      {"RANK", absl::StrCat(rank)},
      {"WORLD_SIZE", absl::StrCat(plan_.ranks.size())},
      {"LOCAL_RANK", absl::StrCat(place.local_rank)},
      {"LOCAL_WORLD_SIZE", absl::StrCat(place.local_size)},
      {"MASTER_ADDR", master_address_},
      {"MASTER_PORT", absl::StrCat(master_port_)},
  };
  if (rank == 0 && listener_) {
    variables["CASTOR_MASTER_SOCKET"] = absl::StrCat(listener_.fd());
  }
  return variables;
}

void Run::BecomeRank(int rank, std::vector<std::string> words,
                     const std::map<std::string, std::string>& environment,
                     int input, int error_fd, pid_t launcher) {
  const auto fail = [error_fd] {
    const int error = errno;
    [[maybe_unused]] const ssize_t put = write(error_fd, &error, sizeof(error));
    _exit(127);
  };
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (getppid() != launcher) _exit(127);  // it has gone already
  sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
  if (dup2(input, STDIN_FILENO) < 0) fail();
  if (rank == 0 && listener_) fcntl(listener_.fd(), F_SETFD, 0);
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) {
    variables.push_back(absl::StrCat(name, "=", value));
  }
  std::vector<char*> arguments, entries;
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& entry : variables) entries.push_back(entry.data());
  arguments.push_back(nullptr);
  entries.push_back(nullptr);
  execvpe(arguments[0], arguments.data(), entries.data());
  fail();
}

absl::Status Run::Start(int rank) {
  std::vector<std::string> words = plan_.program;
  std::map<std::string, std::string> environment = environment_;
  const std::map<std::string, std::string> variables = Variables(rank);
  Child child;
  child.remote = !here_[rank];
  Socket input;
  std::string line;
  if (child.remote) {
    words = plan_.remote_shell;
    words.push_back(plan_.ranks[rank].host);
    words.push_back(std::string(RemoteCommand()));
    std::map<std::string, std::string> there = carried_;
    for (const auto& [name, value] : variables) there[name] = value;
    line = RemoteLine(directory_, there, plan_.program);
    // A pair of sockets rather than a pipe: no SIGPIPE when the shell ends.
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      return SocketError("no socket");
    }
    input = Socket(pair[0]);
    child.input = Socket(pair[1]);
  } else {
    input = Socket(open("/dev/null", O_RDONLY | O_CLOEXEC));
    for (const auto& [name, value] : variables) environment[name] = value;
  }
  int errors[2];
  if (!input || pipe2(errors, O_CLOEXEC) != 0) return SocketError("no pipe");
  Socket read_error(errors[0]), write_error(errors[1]);
  std::fflush(stdout);
  const pid_t launcher = getpid();
  child.process = fork();
  if (child.process < 0) return SocketError("no process");
  if (child.process == 0) {
    BecomeRank(rank, std::move(words), environment, input.fd(),
               write_error.fd(), launcher);
  }
  const pid_t process = child.process;
  const int line_fd = child.input.fd();
  children_.push_back(std::move(child));
  ++running_;
  write_error.Reset();
  input.Reset();
  int error = 0;
  if (read(read_error.fd(), &error, sizeof(error)) == sizeof(error)) {
    WaitFor(process, nullptr, 0);
    children_.back().running = false;
    errno = error;
    return absl::NotFoundError(absl::StrCat("rank ", rank, ": cannot start ",
                                            words[0], ": ",
                                            std::strerror(error)));
  }
  if (line.empty()) return absl::OkStatus();
  // If the shell is gone already, its end tells.
  WriteAll(line_fd, line.data(), line.size(), SteadyNowNs() + 30 * kSecondNs)
      .IgnoreError();
  return absl::OkStatus();
}

absl::Status Run::StartAll() {
  for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
    CASTOR_RETURN_IF_ERROR(Start(static_cast<int>(rank)));
  }
  listener_.Reset();
  return absl::OkStatus();
}

void Run::Signal(Child& child, int signal) {
  if (!child.running) return;
  if (!child.remote) {
    kill(signal == SIGKILL ? -child.process : child.process, signal);
    return;
  }
  const std::string name = absl::StrCat(sigabbrev_np(signal), "\n");
  WriteAll(child.input.fd(), name.data(), name.size(),
           SteadyNowNs() + kSecondNs)
      .IgnoreError();
  // A rank that cannot be reached any more is given up here, too.
  if (signal == SIGKILL) kill(-child.process, SIGTERM);
}

void Run::SignalAll(int signal) {
  for (Child& child : children_) Signal(child, signal);
}

void Run::NoteFailure(int rank, int status) {
  const int code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 0) {
    first_well_ |= rank == 0;
    return;
  }
  // It ended as a signal had asked it to, and so will the others.
  if (WIFEXITED(status) && IsInterruption(code)) {
    interrupted_code_ = code;
    return;
  }
  users_error_ |= code == kUserError;
  // Ended by somebody else: a cause, where exits are mostly consequences, which
  // may be found first.
  const bool killed = WIFSIGNALED(status) && !signalled_ && steps_ == 0;
  if (code_ != 0 && (!killed || killed_)) return;
  failed_ = rank;
  code_ = code;
  killed_ = killed;
  if (killed) {
    const int signal = WTERMSIG(status);
    TellError(kProgram,
              absl::UnavailableError(absl::StrCat(
                  "rank ", rank, " (process ", children_[rank].process,
                  ") was ended by signal ", signal, " (", strsignal(signal),
                  ")", running_ > 0 ? "; the others end too" : "")),
              code_);
  } else if (children_[rank].remote && code == kShellFailed && !signalled_ &&
             steps_ == 0) {
    TellError(
        kProgram,
        absl::UnavailableError(absl::StrCat(
            "the remote shell of rank ", rank, ", on ", plan_.ranks[rank].host,
            ", has failed (exit code ", code, ")")),
        code_);
  }
  const int64_t soon_ns = SteadyNowNs() + plan_.patience_ns;
  next_step_ns_ = std::min(next_step_ns_.value_or(soon_ns), soon_ns);
}

void Run::TakeEnded() {
  for (size_t rank = 0; rank < children_.size(); ++rank) {
    Child& child = children_[rank];
    int status = 0;
    if (!child.running || WaitFor(child.process, &status, WNOHANG) <= 0) {
      continue;
    }
    child.running = false;
    child.input.Reset();
    --running_;
    NoteFailure(static_cast<int>(rank), status);
  }
}

bool Run::Saves() {
  int64_t bytes = 0;
  bool waits = false;
  for (const Child& child : children_) {
    if (!child.running || child.remote) continue;
    bytes += WrittenBytes(child.process);
    waits |= WaitsForDisk(child.process);
  }
  const int64_t more = bytes - std::exchange(written_bytes_, bytes);
  return waits || more >= kSaveBytes;
}

void Run::TakeWish(int signal) {
  const int64_t now_ns = SteadyNowNs();
  if (signalled_ && now_ns - signalled_ns_ >= kSameWishNs) {
    TellNote(kProgram, "a second signal: the ranks are killed");
    steps_ = 2;
    SignalAll(SIGKILL);
    return;
  }
  SignalAll(signal);
  if (std::exchange(signalled_, true)) return;
  signalled_ns_ = now_ns;
  Saves();
  if (!next_step_ns_.has_value()) {
    next_step_ns_ = now_ns + plan_.signal_patience_ns;
  }
}

void Run::TakeStep() {
  // Nobody has failed: the ranks end as they were asked to, or do not.
  const bool asked = code_ == 0 && signalled_;
  if (asked && steps_ < 2 && Saves()) {
    next_step_ns_ = SteadyNowNs() + plan_.signal_patience_ns;
    return;
  }
  const int signal = steps_++ == 0 ? SIGTERM : SIGKILL;
  const char* const name = signal == SIGTERM ? "SIGTERM" : "SIGKILL";
  if (asked) {
    TellNote(
        kProgram,
        absl::StrCat(running_, " of the ranks neither end nor save: they get ",
                     name));
  } else {
    // Rank 0, who speaks for all, may be among them.
    TellError(kProgram,
              absl::UnavailableError(absl::StrCat(
                  "rank ", failed_, " has failed (exit code ", code_, "), and ",
                  running_, " of the others do not end: they get ", name)),
              code_);
  }
  SignalAll(signal);
  next_step_ns_ =
      SteadyNowNs() + (asked && signal == SIGTERM ? plan_.signal_patience_ns
                                                  : plan_.last_patience_ns);
}

// Rank 0 tells of what it knows, and of its own failures; here it knew of none.
void Run::TellOfUntoldFailure() const {
  if (code_ == 0 || !first_well_ || killed_ || signalled_ || steps_ > 0) return;
  TellError(kProgram,
            absl::UnavailableError(
                absl::StrCat("rank ", failed_, " ended with exit code ", code_,
                             ", but rank 0 with 0, as if all were well")),
            code_);
}

int Run::AwaitAll() {
  while (running_ > 0) {
    const int signal = signals_.Next(next_step_ns_);
    if (signal != 0 && signal != SIGCHLD) TakeWish(signal);
    TakeEnded();
    if (running_ > 0 && next_step_ns_.has_value() &&
        SteadyNowNs() >= *next_step_ns_) {
      TakeStep();
    }
  }
  TellOfUntoldFailure();
  if (users_error_) return kUserError;
  return code_ != 0 ? code_ : interrupted_code_;
}

}  // namespace

bool IsThisMachine(const std::string& host) {
  const std::string name = HostOf(host);
  if (name == "localhost" || name == HostName()) return true;
  const auto addresses = Resolve(name, 0);
  // A process can listen at its own machine's addresses alone.
  return addresses.ok() && ListenAt((*addresses)[0], 1).ok();
}

absl::StatusOr<int> RunRanks(const LaunchPlan& plan) {
  Run run(plan);
  CASTOR_RETURN_IF_ERROR(run.Prepare());
  int signal = 0;
  const absl::Status tried = run.TryOtherMachines(&signal);
  if (signal != 0) return 128 + signal;
  CASTOR_RETURN_IF_ERROR(tried);
  CASTOR_RETURN_IF_ERROR(run.StartAll());
  return run.AwaitAll();
}

}  // namespace castor::cli
