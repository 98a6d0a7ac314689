// Starts the ranks of a run, here and on other machines, and stays until the
// last has ended.
//
// Every rank gets torchrun's variables (device/comm/launch_env.h),
// CASTOR_RUN_ID and CASTOR_SECRET, a secret that is new for each run. It is in
// no command line: ranks here have it in their environment, which only their
// user may read, and a remote shell gets it as input. Where rank 0 is on this
// machine it also gets, in CASTOR_MASTER_SOCKET, the socket at which it
// listens: it was opened here, so no other program can take the port in
// between.
//
// First of all every other machine is asked by the remote shell for the
// directory and the program (try_hosts.h): nothing is started where one of them
// does not answer.
//
// Ranks on this machine are children, each in a process group of its own (a
// key pressed at the terminal reaches the launcher alone, which passes it on),
// and the system ends them with the launcher (PR_SET_PDEATHSIG). Those on other
// machines hang on a remote shell (remote_line.h). Output is the ranks' own:
// nothing is held back, and nothing is added to it but a line "castor launch:
// ..." to standard error where a rank may have said nothing: it was ended by a
// signal, which may be the launcher's; or it failed although rank 0, who speaks
// for all, ended with 0.
//
// When a rank has failed, the others learn it from each other and end by
// themselves; those that have not after `patience_ns` get a SIGTERM, and
// after `last_patience_ns` more a SIGKILL.
//
// SIGINT, SIGTERM and SIGHUP are passed on to all: the ranks finish their step,
// save and end. If they have not after `signal_patience_ns` in which none here
// has written to a file, they get a SIGTERM, and after as long again a SIGKILL;
// a second signal, a second or more after the first (terminals and shells send
// one twice), kills them at once.
#ifndef CASTOR_CLI_LAUNCH_LAUNCHER_H_
#define CASTOR_CLI_LAUNCH_LAUNCHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launch/hostfile.h"

namespace castor::cli {

struct LaunchPlan {
  std::vector<RankPlace> ranks;      // one at least
  std::vector<std::string> program;  // its path first, the same everywhere
  // Called as WORDS... HOST COMMAND; it must pass its input on to the
  // command's.
  std::vector<std::string> remote_shell = {"ssh", "-x", "-T"};
  int master_port = 0;  // 0: any free one
  // How long other machines have to answer before anything is started; less
  // than ranks wait for each other.
  int64_t host_patience_ns = 20'000'000'000;
  int64_t patience_ns = 4'000'000'000;
  int64_t last_patience_ns = 3'000'000'000;
  int64_t signal_patience_ns = 120'000'000'000;
  // The names of variables that ranks on other machines are given besides those
  // that always go along (remote_line.h).
  std::vector<std::string> exported;
};

// Returns true if `host` (without a "user@" before it) is this machine.
bool IsThisMachine(const std::string& host);

// Runs the plan, in the calling thread, and gives the exit code: 0 if every
// rank ended with 0; 128 + N if signal N came before a rank was started; 2, a
// user's error, if one ended with 2; otherwise that of the first that was ended
// by signal N, 128 + N, or else that of the first that failed. Errors are those
// of starting; nothing runs then. AlreadyExists: the port is taken.
// InvalidArgument: `exported` is wrong, see VariablesToCarry.
// FailedPrecondition: as TryHosts. One call at a time per process, in its main
// thread.
absl::StatusOr<int> RunRanks(const LaunchPlan& plan);

}  // namespace castor::cli

#endif  // CASTOR_CLI_LAUNCH_LAUNCHER_H_
