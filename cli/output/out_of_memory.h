// The end of a process that the system gives no more memory.
#ifndef CASTOR_CLI_OUTPUT_OUT_OF_MEMORY_H_
#define CASTOR_CLI_OUTPUT_OUT_OF_MEMORY_H_

namespace castor::cli {

// Makes an allocation that fails and that nobody handles, on any thread, end
// the process with kFailure and one line on standard error that says how much
// was asked for. Checkpoints that a run has saved stay: its next start removes
// files that were being written. (Sizes that a user's file or configuration
// decides give an absl::Status before it comes to this.)
void TellWhenOutOfMemory();

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_OUT_OF_MEMORY_H_
