#include "cli/run/find_checkpoint.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "models/families.h"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_reader.h"

namespace castor::cli {

namespace {

// The best checkpoint of the run that wrote `newest`; `newest` where that run
// has none, or it is gone or damaged.
absl::StatusOr<std::string> BestOf(const CheckpointDir& directory,
                                   const std::string& newest) {
  CASTOR_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(newest));
  CASTOR_ASSIGN_OR_RETURN(const CheckpointMetadata metadata,
                          ReadMetadata(*reader, models::Reader()));
  const int64_t step = metadata.state.best.step;
  if (metadata.client.has_value() || !metadata.config.checkpoint.load_best ||
      step == 0 || step == metadata.state.trainer.step) {
    return newest;
  }
  const std::string best = directory.PathOf(step);
  const auto opened = CheckpointReader::Open(best);
  const absl::Status whole =
      opened.ok() ? (*opened)->VerifyAll() : opened.status();
  if (whole.ok()) return best;
  TellNote("castor",
           absl::StrCat("the best checkpoint of the run, that of step ", step,
                        ", cannot be had (", whole.message(),
                        "): the newest is taken"));
  return newest;
}

}  // namespace

absl::StatusOr<std::string> FindCheckpoint(const std::string& path,
                                           WhichCheckpoint which) {
  if (IsCheckpoint(path)) return path;
  std::vector<std::string> skipped;
  const CheckpointDir directory(path);
  CASTOR_ASSIGN_OR_RETURN(CheckpointEntry entry,
                          directory.FindLatest(&skipped));
  for (const std::string& message : skipped) {
    TellNote("castor", message);
  }
  if (which == WhichCheckpoint::kBest) return BestOf(directory, entry.path);
  return std::move(entry.path);
}

}  // namespace castor::cli
