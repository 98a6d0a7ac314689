// A run's checkpoints: files step-00000100.castor in one directory.
//
// What makes "the newest" safe to resume from: a file takes its name only when
// it is whole (checkpoint_file.h), FindLatest trusts no name but reads every
// byte, and Prune never removes the newest file that FindLatest would give.
#ifndef CASTOR_RUNTIME_IO_CHECKPOINT_DIR_H_
#define CASTOR_RUNTIME_IO_CHECKPOINT_DIR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
};

// "step-00000100.castor"; more digits for steps beyond 10^8.
std::string CheckpointName(int64_t step);

// The step of a name that CheckpointName gives; -1 for any other name.
int64_t StepOfCheckpointName(absl::string_view name);

// Holds nothing but the path: each call looks at the directory anew. Several
// processes may read it; one writes.
class CheckpointDir {
 public:
  explicit CheckpointDir(std::string directory);

  const std::string& directory() const { return directory_; }
  std::string PathOf(int64_t step) const;

  // Makes the directory, and those above it, where they are missing.
  absl::Status Make() const;

  // By ascending step, by name alone. NotFound: no such directory.
  absl::StatusOr<std::vector<CheckpointEntry>> List() const;

  // The newest checkpoint of which every byte verifies. `skipped` (may be null)
  // receives one message for each newer file that was refused. NotFound: there
  // is none.
  absl::StatusOr<CheckpointEntry> FindLatest(
      std::vector<std::string>* skipped) const;

  // Removes all but the newest `keep` >= 1 files. When none of those kept is
  // valid, the newest valid one below them stays too. Reads the newest file to
  // know it is valid, unless it is `known_valid_step`, which the caller has
  // just committed.
  absl::Status Prune(int64_t keep, int64_t known_valid_step = -1) const;

  // Removes what killed runs left half written, but nothing that a live process
  // is writing. Returns the names.
  absl::StatusOr<std::vector<std::string>> RemoveStaleTemporaries() const;

 private:
  const std::string directory_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_IO_CHECKPOINT_DIR_H_
