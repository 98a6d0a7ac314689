// A Unix socket, FOLDER/PID, through which a process asks a run in progress for
// something. Only the run's user can use it. A request is a line, its answer
// another.
//
// FOLDER is $XDG_RUNTIME_DIR/castor or, without that variable, castor-UID in
// the system's temporary folder ($TMPDIR, /tmp). It has to be the user's own,
// no link, and closed to all others (mode 0700), who therefore cannot reach the
// socket. Both sides also ask the system who is at the other end.
#ifndef CASTOR_CLI_RESIZE_CONTROL_SOCKET_H_
#define CASTOR_CLI_RESIZE_CONTROL_SOCKET_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/comm/socket.h"

namespace castor::cli {

struct ControlAnswer {
  bool done = false;  // what was requested
  std::string line;   // for the user, without a line break
};

// Returns the folder's path. `make`: it is made where it is missing. NotFound:
// it is missing. FailedPrecondition: it is not as above; the message says what
// to do.
absl::StatusOr<std::string> ControlFolder(bool make);

// Listens for requests to this process on a thread of its own, which sleeps
// until one comes.
class ControlListener {
 public:
  // Opens the socket. `answer` is called on the thread, with one request at a
  // time, and may wait. Sockets of processes that are gone are removed from the
  // folder. Errors say why nobody can ask; the run itself is not affected.
  static absl::StatusOr<std::unique_ptr<ControlListener>> Create(
      std::function<ControlAnswer(const std::string& request)> answer);
  // Waits until the request at hand is answered. The socket is gone then.
  ~ControlListener();
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;

 private:
  ControlListener() = default;
  void Listen();
  void AnswerOn(Socket connection);

  std::string path_;
  std::function<ControlAnswer(const std::string& request)> answer_;
  Socket listener_;
  Socket stop_;  // an event's descriptor
  std::thread thread_;
};

// Sends a request to a process, and waits for its answer. NotFound: no run of
// this user listens there. Unavailable: it ended before it answered.
absl::StatusOr<ControlAnswer> AskProcess(pid_t pid, const std::string& request);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RESIZE_CONTROL_SOCKET_H_
