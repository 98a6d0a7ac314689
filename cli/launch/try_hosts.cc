#include "cli/launch/try_hosts.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "cli/launch/remote_line.h"
#include "device/comm/socket.h"

namespace castor::cli {
namespace {

// The exit codes of the line where something is missing; no shell ends with
// these.
constexpr int kNoDirectory = 93, kNoProgram = 94;
// The most machines that a message names.
constexpr size_t kMaxNamed = 8;

struct Attempt {
  std::string host;
  pid_t process = -1;  // -1: it has ended
  Socket said;         // a file in memory: its standard error
  std::string why;     // it is of no use; "": it is
};

// A file in memory that holds `text`, to be read from its beginning.
absl::StatusOr<Socket> FileInMemory(absl::string_view text) {
  Socket file(memfd_create("castor launch", MFD_CLOEXEC));
  if (!file || pwrite(file.fd(), text.data(), text.size(), 0) !=
                   static_cast<ssize_t>(text.size())) {
    return SocketError("no file in memory");
  }
  return file;
}

// The last line that is not empty: what a shell says before it gives up.
std::string LastLine(int fd) {
  std::string text(4096, '\0');
  const off_t end = lseek(fd, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(text.size()));
  const ssize_t got = pread(fd, text.data(), text.size(), begin);
  text.resize(std::max<ssize_t>(0, got));
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const size_t line = rest.rfind('\n');
  if (line != absl::string_view::npos) rest = rest.substr(line + 1);
  return Printable(absl::StripAsciiWhitespace(rest));
}

std::string WhyItEnded(const TriedHosts& tried, const Attempt& attempt,
                       int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoDirectory) {
    return absl::StrCat("has no directory ", Printable(tried.directory));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoProgram) {
    return absl::StrCat("has no program ", Printable(tried.program));
  }
  const std::string said = LastLine(attempt.said.fd());
  if (!said.empty()) return said;
  return WIFEXITED(status) ? absl::StrCat("exit code ", WEXITSTATUS(status))
                           : absl::StrCat("ended by signal ", WTERMSIG(status));
}

absl::Status Start(const TriedHosts& tried, const BlockedSignals& signals,
                   const std::string& line, Attempt* attempt) {
  CASTOR_ASSIGN_OR_RETURN(const Socket input, FileInMemory(line));
  CASTOR_ASSIGN_OR_RETURN(attempt->said, FileInMemory(""));
  std::vector<std::string> words = tried.remote_shell;
  words.push_back(attempt->host);
  words.push_back(std::string(RemoteCommand()));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t launcher = getpid();
  attempt->process = fork();
  if (attempt->process < 0) return SocketError("no process");
  if (attempt->process > 0) return absl::OkStatus();
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(127);
  sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (dup2(input.fd(), STDIN_FILENO) < 0 || dup2(nowhere, STDOUT_FILENO) < 0 ||
      dup2(attempt->said.fd(), STDERR_FILENO) < 0) {
    _exit(127);
  }
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "cannot start %s: %s\n", arguments[0],
          std::strerror(errno));
  _exit(127);
}

void TakeEnded(const TriedHosts& tried, std::vector<Attempt>* attempts) {
  for (Attempt& attempt : *attempts) {
    int status = 0;
    if (attempt.process < 0 ||
        waitpid(attempt.process, &status, WNOHANG) <= 0) {
      continue;
    }
    attempt.process = -1;
    attempt.why = WhyItEnded(tried, attempt, status);
  }
}

void EndAll(std::vector<Attempt>* attempts) {
  for (Attempt& attempt : *attempts) {
    if (attempt.process < 0) continue;
    kill(-attempt.process, SIGKILL);
    kill(attempt.process, SIGKILL);  // it may have no group of its own yet
    while (waitpid(attempt.process, nullptr, 0) < 0 && errno == EINTR) {
    }
    attempt.process = -1;
  }
}

absl::Status Judge(const TriedHosts& tried,
                   const std::vector<Attempt>& attempts) {
  std::vector<std::string> named;
  size_t failed = 0;
  for (const Attempt& attempt : attempts) {
    if (attempt.why.empty() || failed++ >= kMaxNamed) continue;
    named.push_back(
        absl::StrCat(Printable(attempt.host), " (", attempt.why, ")"));
  }
  if (failed == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      failed, " of the run's ", attempts.size(),
      attempts.size() == 1 ? " other machine" : " other machines",
      " cannot start ranks: ", absl::StrJoin(named, ", "),
      failed > kMaxNamed ? absl::StrCat(" and ", failed - kMaxNamed, " more")
                         : "",
      "; nothing was started. Correct the hostfile, or make `",
      Printable(absl::StrJoin(tried.remote_shell, " ")), " HOST true` work ",
      "without a password, and the program and the directory the same there"));
}

}  // namespace

absl::Status TryHosts(const TriedHosts& tried, const BlockedSignals& signals,
                      int* signal) {
  const std::string line = absl::StrCat(
      "n=$(printf '\\nx'); n=${n%x}; cd ", ShellQuote(tried.directory),
      " || exit ", kNoDirectory, "; command -v ", ShellQuote(tried.program),
      " || exit ", kNoProgram, "; exit 0\n");
  const int64_t until_ns = SteadyNowNs() + tried.limit_ns;
  std::vector<Attempt> attempts;
  absl::Status status;
  for (const std::string& host : tried.hosts) {
    attempts.push_back({.host = host, .said = {}, .why = {}});
    status = Start(tried, signals, line, &attempts.back());
    if (!status.ok()) break;
  }
  const auto runs = [](const Attempt& attempt) { return attempt.process > 0; };
  while (status.ok() && std::any_of(attempts.begin(), attempts.end(), runs)) {
    const int came = signals.Next(until_ns);
    TakeEnded(tried, &attempts);
    if (came != 0 && came != SIGCHLD) {
      *signal = came;
      status = absl::CancelledError("a signal");
    } else if (SteadyNowNs() >= until_ns) {
      for (Attempt& attempt : attempts) {
        if (!runs(attempt)) continue;
        attempt.why = absl::StrCat("no answer within ",
                                   tried.limit_ns / 1'000'000'000, " s");
      }
      break;
    }
  }
  EndAll(&attempts);
  return status.ok() ? Judge(tried, attempts) : status;
}

}  // namespace castor::cli
