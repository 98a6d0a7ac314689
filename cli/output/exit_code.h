// The exit codes of `castor` (docs/exit-status.md).
#ifndef CASTOR_CLI_OUTPUT_EXIT_CODE_H_
#define CASTOR_CLI_OUTPUT_EXIT_CODE_H_

namespace castor::cli {

inline constexpr int kSuccess = 0;    // all that was asked for was done
inline constexpr int kFailure = 1;    // of the run, of the machine, or our own
inline constexpr int kUserError = 2;  // a bad or an impossible request

// Returns the code of a run that `signal` asked to end: the code that shells
// give to a process that a signal ends.
constexpr int InterruptedBy(int signal) { return 128 + signal; }

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_EXIT_CODE_H_
