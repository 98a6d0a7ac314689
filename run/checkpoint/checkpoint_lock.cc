#include "run/checkpoint/checkpoint_lock.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor {
namespace {

constexpr int64_t kMaxBytes = 1 << 16;

}  // namespace

CheckpointLock::CheckpointLock(std::unique_ptr<LockFile> file)
    : file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<CheckpointLock>> CheckpointLock::Take(
    const std::string& directory, absl::string_view run_id, LockWait wait) {
  wait.what = absl::StrCat(directory, " is in use");
  LockFile::Attempt attempt =
      AwaitLock(absl::StrCat(directory, "/", kName), wait);
  if (attempt.outcome == LockFile::Attempt::Outcome::kHeld) {
    const LockHolder holder = HolderOf(attempt);
    if (holder.has_ended) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory, " is in use by something that ", holder.name,
                       ", which has ended, has left behind: end that (fuser ",
                       directory, "/", kName, " tells what it is)"));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        directory, " is in use by ", holder.name,
        ": wait until that has ended (checkpoint.lock_timeout_seconds), or "
        "give this run a checkpoint.dir of its own"));
  }
  if (absl::IsUnimplemented(attempt.why)) {
    return absl::FailedPreconditionError(absl::StrCat(
        attempt.why.message(), ": a second run in ", directory,
        " would not be noticed. Choose another file system, or set "
        "checkpoint.lock to false (in PyTorch: lock=False) and see to it "
        "yourself"));
  }
  if (absl::IsPermissionDenied(attempt.why)) {
    return absl::FailedPreconditionError(absl::StrCat(
        attempt.why.message(), ": ", directory,
        " is in use by a run of that user, or was when it was killed; remove "
        "the file if that has ended, or give this run a checkpoint.dir of its "
        "own"));
  }
  CASTOR_RETURN_IF_ERROR(attempt.why);
  std::unique_ptr<CheckpointLock> lock(
      new CheckpointLock(std::move(attempt.lock)));
  CASTOR_RETURN_IF_ERROR(lock->SetRun(run_id));
  return lock;
}

bool CheckpointLock::IsOf(const std::string& directory,
                          absl::string_view run_id) {
  const auto text =
      ReadSmallFile(absl::StrCat(directory, "/", kName), kMaxBytes);
  if (!text.ok()) return false;
  const auto json = ParseStrictJson(*text);
  return json.ok() && json->is_object() && json->contains("run") &&
         (*json)["run"] == std::string(run_id);
}

absl::Status CheckpointLock::SetRun(absl::string_view run_id) {
  return file_->Write(LockHolderText(run_id));
}

}  // namespace castor
