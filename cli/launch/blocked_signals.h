// The signals that a launcher heeds. They are blocked in this process, so that
// they are taken one at a time; processes that it starts get the former mask
// back.
#ifndef CASTOR_CLI_LAUNCH_BLOCKED_SIGNALS_H_
#define CASTOR_CLI_LAUNCH_BLOCKED_SIGNALS_H_

#include <signal.h>

#include <cstdint>
#include <optional>

namespace castor::cli {

class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  // Waits for and returns SIGCHLD, SIGINT, SIGTERM or SIGHUP; 0: none has come
  // until `until_ns`, a time of SteadyNowNs (none: an hour from now).
  int Next(std::optional<int64_t> until_ns) const;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t set_;
  sigset_t before_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_LAUNCH_BLOCKED_SIGNALS_H_
