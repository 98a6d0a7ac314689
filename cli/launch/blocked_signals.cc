#include "cli/launch/blocked_signals.h"

#include <algorithm>
#include <ctime>

#include "device/comm/socket.h"

namespace castor::cli {

BlockedSignals::BlockedSignals() {
  sigemptyset(&set_);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) {
    sigaddset(&set_, signal);
  }
  sigprocmask(SIG_BLOCK, &set_, &before_);
}

BlockedSignals::~BlockedSignals() {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int BlockedSignals::Next(std::optional<int64_t> until_ns) const {
  constexpr int64_t kSecondNs = 1'000'000'000;
  timespec left = {.tv_sec = 3600, .tv_nsec = 0};
  if (until_ns.has_value()) {
    const int64_t ns = std::max<int64_t>(0, *until_ns - SteadyNowNs());
    left = {.tv_sec = ns / kSecondNs, .tv_nsec = ns % kSecondNs};
  }
  return std::max(0, sigtimedwait(&set_, nullptr, &left));
}

}  // namespace castor::cli
