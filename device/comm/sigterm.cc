#include "device/comm/sigterm.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace castor {
namespace {

// What a signal handler may touch.
std::atomic<int> event_to_raise{-1};
std::atomic<bool> came{false};
static_assert(std::atomic<int>::is_always_lock_free);

void OnSigterm(int) {
  const int saved = errno;
  came.store(true);
  const uint64_t one = 1;
  if (const int fd = event_to_raise.load(); fd >= 0) {
    // An event that is full has been raised: nothing is lost.
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
  }
  errno = saved;
}

}  // namespace

bool TakeSigterm(int event_fd) {
  struct sigaction present = {};
  if (sigaction(SIGTERM, nullptr, &present) != 0 ||
      present.sa_handler != SIG_DFL) {
    return false;
  }
  came.store(false);
  event_to_raise.store(event_fd);
  struct sigaction action = {};
  action.sa_handler = OnSigterm;
  action.sa_flags = SA_RESTART;
  return sigaction(SIGTERM, &action, nullptr) == 0;
}

bool SigtermCame() { return came.load(); }

void GiveSigtermBack() {
  // The program may have put a handler of its own in its place meanwhile.
  struct sigaction present = {};
  if (sigaction(SIGTERM, nullptr, &present) == 0 &&
      present.sa_handler == OnSigterm) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(SIGTERM, &action, nullptr);
  }
  event_to_raise.store(-1);
}

void EndBySigterm() {
  GiveSigtermBack();
  kill(getpid(), SIGTERM);
}

}  // namespace castor
