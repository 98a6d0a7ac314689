// Checkpoints of an earlier run that are in a run's directory move aside: DIR
// is the new run's, DIR.1, DIR.2, ... have what was there before, the greatest
// number the latest. All of it stays unless the user says how many.
#ifndef CASTOR_RUN_CHECKPOINT_SET_ASIDE_H_
#define CASTOR_RUN_CHECKPOINT_SET_ASIDE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "run/checkpoint/checkpoint_dir.h"

namespace castor {

// A directory that holds what moved aside, and the bytes that it takes.
struct AsideDirectory {
  std::string path;  // "": there is none
  int64_t bytes = 0;
};

// A run does not mix its checkpoints with another's: those in `directory` of
// later steps than `step`, which this run has not made, move into a new
// directory beside it. Else they would pass for the newest, and this run's own
// would be removed as the oldest. The path is "" if there are none.
absl::StatusOr<AsideDirectory> MoveLaterAside(const CheckpointDir& directory,
                                              int64_t step);

// "checkpoints of an earlier run moved to DIR.1 (1.2 MiB)".
std::string Describe(const AsideDirectory& moved);

// Removes all but the newest `keep` >= 1 of the directories that
// MoveLaterAside made for `directory`. One that somebody else made, or that a
// run saves into by now, is not among them, whatever its name; nor is a file
// removed that is no checkpoint. Returns those that were removed. What cannot
// be removed is the error that `problem` receives.
absl::StatusOr<std::vector<AsideDirectory>> RemoveOldAside(
    const CheckpointDir& directory, int64_t keep, absl::Status* problem);

// A run saves into `directory` from now on: it is no longer one of those that
// RemoveOldAside removes.
absl::Status NoLongerAside(const CheckpointDir& directory);

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_SET_ASIDE_H_
