#include "cli/resize/control_socket.h"

#include <dirent.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/event.h"
#include "base/status_macros.h"
#include "base/thread.h"

namespace castor::cli {
namespace {

// How long the other side has to send its line, or to take its answer.
constexpr int64_t kLineNs = 5'000'000'000;
constexpr size_t kMostLineBytes = 4096;
constexpr char kDone[] = "done ";
constexpr char kRefused[] = "refused ";

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// FailedPrecondition: such a path is too long for a socket.
absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is too long a path for a socket, which has ",
                     sizeof(address.sun_path) - 1,
                     " characters: set XDG_RUNTIME_DIR to a shorter one"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

absl::StatusOr<Socket> NewSocket() {
  Socket made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                     /*protocol=*/0));
  if (!made) return SocketError("a Unix socket");
  return made;
}

// Unix sockets are connected at once, or not at all.
absl::StatusOr<Socket> Connect(const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  CASTOR_ASSIGN_OR_RETURN(Socket made, NewSocket());
  if (connect(made.fd(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT) {
      return absl::NotFoundError(absl::StrCat("nobody listens at ", path));
    }
    return SocketError(path);
  }
  return made;
}

// Root may ask, too.
bool IsOurs(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

// A line without its end. Unavailable: the other side ended before it, or sends
// none in time.
absl::StatusOr<std::string> ReadLine(int fd, int64_t until_ns) {
  std::string line;
  while (line.size() < kMostLineBytes) {
    char next = 0;
    CASTOR_RETURN_IF_ERROR(ReadAll(fd, &next, 1, until_ns));
    if (next == '\n') return line;
    line.push_back(next);
  }
  return absl::UnavailableError("a line that is too long");
}

void RemoveSocketsOfEndedRuns(const std::string& folder) {
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* const entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string path = absl::StrCat(folder, "/", name);
    // By its process's number one could not tell: a container has its own.
    if (absl::IsNotFound(Connect(path).status())) unlink(path.c_str());
  }
  closedir(entries);
}

}  // namespace

absl::StatusOr<std::string> ControlFolder(bool make) {
  std::string folder = FromEnvironment("XDG_RUNTIME_DIR");
  if (absl::StartsWith(folder, "/")) {
    absl::StrAppend(&folder, "/castor");
  } else {
    folder = FromEnvironment("TMPDIR");
    if (!absl::StartsWith(folder, "/")) folder = "/tmp";
    absl::StrAppend(&folder, "/castor-", geteuid());
  }
  if (make && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " cannot be made: ", std::strerror(errno)));
  }
  struct stat found = {};
  if (lstat(folder.c_str(), &found) != 0) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": ", std::strerror(errno)));
  }
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() ||
      (found.st_mode & 0777) != 0700) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s is no folder of this user's alone (%s of user %d with mode %04o): "
        "remove it, or set XDG_RUNTIME_DIR to another folder",
        folder,
        S_ISDIR(found.st_mode)   ? "a folder"
        : S_ISLNK(found.st_mode) ? "a link"
                                 : "a file",
        found.st_uid, found.st_mode & 07777));
  }
  return folder;
}

absl::StatusOr<std::unique_ptr<ControlListener>> ControlListener::Create(
    std::function<ControlAnswer(const std::string& request)> answer) {
  CASTOR_ASSIGN_OR_RETURN(const std::string folder,
                          ControlFolder(/*make=*/true));
  RemoveSocketsOfEndedRuns(folder);
  std::unique_ptr<ControlListener> made(new ControlListener());
  made->answer_ = std::move(answer);
  const std::string path = absl::StrCat(folder, "/", getpid());
  CASTOR_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  CASTOR_ASSIGN_OR_RETURN(made->listener_, NewSocket());
  if (bind(made->listener_.fd(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0) {
    return SocketError(path);
  }
  made->path_ = path;
  if (listen(made->listener_.fd(), /*backlog=*/8) != 0) {
    return SocketError(path);
  }
  made->stop_ = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->stop_) return SocketError("an event");
  CASTOR_ASSIGN_OR_RETURN(
      made->thread_,
      StartThread("requests of castor resize",
                  [listener = made.get()] { listener->Listen(); }));
  return made;
}

ControlListener::~ControlListener() {
  if (thread_.joinable()) {
    RaiseEvent(stop_.fd());
    thread_.join();
  }
  if (!path_.empty()) unlink(path_.c_str());
}

void ControlListener::Listen() {
  while (true) {
    pollfd waits[] = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0},
                      {.fd = stop_.fd(), .events = POLLIN, .revents = 0}};
    if (poll(waits, 2, /*timeout=*/-1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    if (waits[0].revents == 0) continue;
    Socket connection(accept4(listener_.fd(), nullptr, nullptr,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection && IsOurs(connection.fd())) AnswerOn(std::move(connection));
  }
}

void ControlListener::AnswerOn(Socket connection) {
  const auto request = ReadLine(connection.fd(), SteadyNowNs() + kLineNs);
  if (!request.ok()) return;
  const ControlAnswer answer = answer_(*request);
  const std::string line =
      absl::StrCat(answer.done ? kDone : kRefused, answer.line, "\n");
  // The process that asked may be gone.
  WriteAll(connection.fd(), line.data(), std::min(line.size(), kMostLineBytes),
           SteadyNowNs() + kLineNs)
      .IgnoreError();
}

absl::StatusOr<ControlAnswer> AskProcess(pid_t pid,
                                         const std::string& request) {
  const auto folder = ControlFolder(/*make=*/false);
  if (!folder.ok() && !absl::IsNotFound(folder.status())) {
    return folder.status();
  }
  const std::string path =
      folder.ok() ? absl::StrCat(*folder, "/", pid) : std::string();
  const auto connection =
      folder.ok() ? Connect(path) : absl::StatusOr<Socket>(folder.status());
  if (absl::IsNotFound(connection.status())) {
    return absl::NotFoundError(absl::StrCat(
        "no castor train of this user listens as process ", pid, " (",
        connection.status().message(),
        "); it listens from its first step on, where XDG_RUNTIME_DIR and "
        "TMPDIR are the same"));
  }
  CASTOR_RETURN_IF_ERROR(connection.status());
  if (!IsOurs(connection->fd())) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is another user's"));
  }
  const std::string line = absl::StrCat(request, "\n");
  CASTOR_RETURN_IF_ERROR(WriteAll(connection->fd(), line.data(), line.size(),
                                  SteadyNowNs() + kLineNs));
  // A step, or an evaluation, may be under way.
  pollfd wait = {.fd = connection->fd(), .events = POLLIN, .revents = 0};
  while (poll(&wait, 1, /*timeout=*/-1) < 0 && errno == EINTR) {
  }
  const auto answer = ReadLine(connection->fd(), SteadyNowNs() + kLineNs);
  if (!answer.ok()) {
    return absl::UnavailableError(
        absl::StrCat("process ", pid,
                     " ended before it answered: ", answer.status().message()));
  }
  const bool done = absl::StartsWith(*answer, kDone);
  return ControlAnswer{
      .done = done,
      .line = answer->substr(
          std::min(answer->size(), std::strlen(done ? kDone : kRefused)))};
}

}  // namespace castor::cli
