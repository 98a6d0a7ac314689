// The end of a command that fails.
#ifndef CASTOR_CLI_OUTPUT_FAIL_H_
#define CASTOR_CLI_OUTPUT_FAIL_H_

#include "absl/status/status.h"

namespace castor::cli {

// Returns the exit code (cli/output/exit_code.h) of a process that ends with
// `status`.
int ExitCode(const absl::Status& status);
// Prints `status` (base/standard_error.h), a line for each of its errors, and
// returns the exit code.
int Fail(const absl::Status& status);

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_FAIL_H_
