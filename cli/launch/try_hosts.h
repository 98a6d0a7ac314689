// Checks that ranks can be started on other machines, before any is started:
// the remote shell is asked for the directory and the program on each of them.
#ifndef CASTOR_CLI_LAUNCH_TRY_HOSTS_H_
#define CASTOR_CLI_LAUNCH_TRY_HOSTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/launch/blocked_signals.h"

namespace castor::cli {

struct TriedHosts {
  std::vector<std::string> hosts;         // each once
  std::vector<std::string> remote_shell;  // called as WORDS... HOST COMMAND
  std::string directory;                  // in which ranks run
  std::string program;                    // which they run
  int64_t limit_ns = 0;                   // for all of them
};

// Asks all hosts. FailedPrecondition: says in one line which machines do not
// answer, and why, or have no such directory or program. Cancelled: a signal to
// stop came, which `*signal` then is. Blocks; nothing that it started is left
// running.
absl::Status TryHosts(const TriedHosts& tried, const BlockedSignals& signals,
                      int* signal);

}  // namespace castor::cli

#endif  // CASTOR_CLI_LAUNCH_TRY_HOSTS_H_
