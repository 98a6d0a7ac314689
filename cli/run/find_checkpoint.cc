#include "cli/run/find_checkpoint.h"

#include <cstdio>
#include <vector>

#include "base/status_macros.h"
#include "run/checkpoint/checkpoint_dir.h"

namespace castor::cli {

absl::StatusOr<std::string> FindCheckpoint(const std::string& path) {
  if (IsCheckpoint(path)) return path;
  std::vector<std::string> skipped;
  CASTOR_ASSIGN_OR_RETURN(CheckpointEntry entry,
                          CheckpointDir(path).FindLatest(&skipped));
  for (const std::string& message : skipped) {
    std::fprintf(stderr, "castor: %s\n", message.c_str());
  }
  return std::move(entry.path);
}

}  // namespace castor::cli
