// The words that make a remote shell run a rank on another machine as it would
// run on this one.
//
// The remote shell's own command is always the same and holds nothing of the
// run (it is seen in the list of processes on both machines): a small sh that
// reads one line from its input and carries it out. The line changes to the
// directory, sets the variables and becomes the program. The rest of the input
// brings signals, a name a line; its end ends the rank, so none outlives the
// launcher.
#ifndef CASTOR_CLI_LAUNCH_REMOTE_LINE_H_
#define CASTOR_CLI_LAUNCH_REMOTE_LINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::cli {

// Returns `text` as one word of a POSIX shell, whatever is in it, on one line;
// needs $n to hold a newline.
std::string ShellQuote(absl::string_view text);

// Returns the command that the remote shell is asked to run on the other
// machine; it reads RemoteLine's line from its input.
absl::string_view RemoteCommand();

// Returns the line, with its newline.
std::string RemoteLine(const std::string& directory,
                       const std::map<std::string, std::string>& variables,
                       const std::vector<std::string>& program);

// Returns the variables of `environment` that a rank elsewhere is given, too:
// search paths of libraries, variables that steer threads, devices and
// networks, and `more`. InvalidArgument: one of `more` is no variable's name,
// is not set, or is the launcher's own to set.
absl::StatusOr<std::map<std::string, std::string>> VariablesToCarry(
    const std::map<std::string, std::string>& environment,
    const std::vector<std::string>& more);

}  // namespace castor::cli

#endif  // CASTOR_CLI_LAUNCH_REMOTE_LINE_H_
