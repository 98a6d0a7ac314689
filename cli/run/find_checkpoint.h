// The checkpoint that a command line names.
#ifndef CASTOR_CLI_RUN_FIND_CHECKPOINT_H_
#define CASTOR_CLI_RUN_FIND_CHECKPOINT_H_

#include <string>

#include "absl/status/statusor.h"

namespace castor::cli {

// `path` itself where it is a checkpoint; of a directory of several the newest
// one that verifies. Standard error names those that it passes over because
// they are damaged. Errors are those of CheckpointDir::FindLatest.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_FIND_CHECKPOINT_H_
