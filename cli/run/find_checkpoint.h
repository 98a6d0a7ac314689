// The checkpoint that a command line names.
#ifndef CASTOR_CLI_RUN_FIND_CHECKPOINT_H_
#define CASTOR_CLI_RUN_FIND_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace castor::cli {

enum class WhichCheckpoint : uint8_t { kNewest, kBest };

// Returns `path` itself where it is a checkpoint; of a directory of several the
// newest one that verifies or, for kBest and a run with checkpoint.load_best,
// the best that the newest one knows of. Standard error names those that it
// passes over because they are damaged or gone. Errors are those of
// CheckpointDir::FindLatest.
absl::StatusOr<std::string> FindCheckpoint(
    const std::string& path, WhichCheckpoint which = WhichCheckpoint::kBest);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_FIND_CHECKPOINT_H_
