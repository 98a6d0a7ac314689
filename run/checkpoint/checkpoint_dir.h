// A run's checkpoints: step-00000100.castor in one directory, each a file of
// one rank or a directory of several (checkpoint_parts.h).
//
// It is safe to resume from "the newest": a checkpoint takes its name only when
// it is whole, FindLatest trusts no name but reads every byte, and Prune never
// removes the newest one that FindLatest would give.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_DIR_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_DIR_H_

#include <cstdint>
#include <deque>
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

// Returns whether `path` is a checkpoint, or was to be one, and not a directory
// of several. Its name and what lies in it tell.
bool IsCheckpoint(const std::string& path);

// Bytes that a disk must have free for `saves` more checkpoints of `size_bytes`
// each, one after the other, of which, and of those of `sizes` (the oldest
// first) that are there, only the newest `keep` stay after each.
int64_t RoomForSaves(std::deque<int64_t> sizes, int64_t size_bytes,
                     int64_t saves, int64_t keep);

// Holds nothing but the path: each call looks at the directory anew. Several
// processes may read it; one writes.
class CheckpointDir {
 public:
  explicit CheckpointDir(std::string directory);

  const std::string& directory() const { return directory_; }
  std::string PathOf(int64_t step) const;

  // Makes the directory, and those above it, where they are missing, and sees
  // to it that files can be made in it. Returns those that were made, the
  // topmost first.
  absl::StatusOr<std::vector<std::string>> Make() const;
  // Checks that Make would succeed, as far as that can be known without making
  // anything. InvalidArgument, PermissionDenied: it would not.
  absl::Status CheckCanBeMade() const;

  // By ascending step, by name alone. One whose replacement was cut short
  // (directory_entry.h) is still there, under the name it has now. NotFound: no
  // such directory.
  absl::StatusOr<std::vector<CheckpointEntry>> List() const;

  // The newest checkpoint of which every byte verifies. `skipped` (may be null)
  // receives one message for each newer one that is damaged. NotFound: there is
  // none. A newer one that cannot be read, of which nobody knows whether it is
  // damaged, is an error, with the code of what failed.
  absl::StatusOr<CheckpointEntry> FindLatest(
      std::vector<std::string>* skipped) const;

  // Removes all but the newest `keep` >= 1. When none of those kept is valid,
  // the newest valid one below them stays too. Reads the newest to know that it
  // is valid, unless it is `known_valid_step`, which the caller has just
  // committed and which stays whatever else is there, as the one of
  // `spared_step` does, which does not count among the newest. One that cannot
  // be removed keeps none of the others; the first such failure is returned.
  absl::Status Prune(int64_t keep, int64_t known_valid_step = -1,
                     int64_t spared_step = -1) const;

  // Says what keeps the disk from taking `saves` more checkpoints of
  // `size_bytes` each when Prune leaves the newest `keep` of them and of those
  // that are there up to step `last_step`: it has to take keep + 1 in all, if
  // there will be so many. "" if it has the room. The directory may still have
  // to be made. Others may use the disk meanwhile. Fails where the disk cannot
  // be asked.
  absl::StatusOr<std::string> MissingRoom(int64_t size_bytes, int64_t saves,
                                          int64_t keep,
                                          int64_t last_step) const;
  // The same as an error: ResourceExhausted where room is missing.
  absl::Status CheckRoom(int64_t size_bytes, int64_t saves, int64_t keep,
                         int64_t last_step) const;

  // Removes what killed runs left half written, but nothing that a live process
  // is writing, on whichever of the ranks. Returns the names. `problem`: as in
  // atomic_file.h.
  absl::StatusOr<std::vector<std::string>> RemoveStaleTemporaries(
      absl::Status* problem = nullptr) const;

 private:
  const std::string directory_;
};

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_DIR_H_
