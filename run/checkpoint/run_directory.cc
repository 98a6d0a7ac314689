#include "run/checkpoint/run_directory.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "run/checkpoint/set_aside.h"

namespace castor {

RunDirectory::RunDirectory(std::string directory)
    : files_(std::move(directory)) {}

RunDirectory::~RunDirectory() {
  lock_.reset();
  // Directories in which there is something now stay.
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
    rmdir(made->c_str());
  }
}

absl::Status RunDirectory::Claim(absl::string_view run_id,
                                 const ClaimOptions& options) {
  if (options.make) {
    CASTOR_ASSIGN_OR_RETURN(made_, files_.Make());
  }
  if (options.lock) {
    CASTOR_ASSIGN_OR_RETURN(
        lock_, CheckpointLock::Take(files_.directory(), run_id, options.wait));
  }
  return absl::OkStatus();
}

absl::Status RunDirectory::SetRun(absl::string_view run_id) {
  return lock_ == nullptr ? absl::OkStatus() : lock_->SetRun(run_id);
}

absl::Status RunDirectory::RemoveStale(DirectoryNotes* notes) {
  absl::Status stale;
  CASTOR_RETURN_IF_ERROR(files_.RemoveStaleTemporaries(&stale).status());
  if (!stale.ok()) {
    notes->problems.push_back(absl::StrCat(
        "what a killed run has left behind stays: ", stale.message()));
  }
  return absl::OkStatus();
}

absl::Status RunDirectory::MakeWay(int64_t last_step, int64_t keep_aside,
                                   DirectoryNotes* notes) {
  CASTOR_RETURN_IF_ERROR(NoLongerAside(files_));
  CASTOR_ASSIGN_OR_RETURN(const AsideDirectory aside,
                          MoveLaterAside(files_, last_step));
  if (!aside.path.empty()) notes->changes.push_back(Describe(aside));
  if (keep_aside == 0) return absl::OkStatus();
  absl::Status staying;
  CASTOR_ASSIGN_OR_RETURN(const std::vector<AsideDirectory> removed,
                          RemoveOldAside(files_, keep_aside, &staying));
  for (const AsideDirectory& each : removed) {
    notes->changes.push_back(
        absl::StrCat("removed ", each.path, " (", FormatBytes(each.bytes),
                     "): checkpoint.keep_aside is ", keep_aside));
  }
  if (!staying.ok()) {
    notes->problems.push_back(
        absl::StrCat("what moved aside stays: ", staying.message()));
  }
  return absl::OkStatus();
}

std::string RunDirectory::Prune(int64_t keep, int64_t newest_step,
                                int64_t spared_step) {
  const absl::Status pruned = files_.Prune(keep, newest_step, spared_step);
  if (pruned.ok() || pruned.message() == pruning_told_) return "";
  pruning_told_ = std::string(pruned.message());
  return absl::StrCat("an old checkpoint stays: ", pruned.message());
}

absl::Status SaveTwice(absl::FunctionRef<absl::Status()> save,
                       std::string* first_failure) {
  first_failure->clear();
  absl::Status saved = save();
  if (!absl::IsAborted(saved)) return saved;
  *first_failure = std::string(saved.message());
  return save();
}

std::string SecondAttemptNote(int64_t step, absl::string_view first_failure) {
  return absl::StrCat("step ", step, " was saved at the second attempt; ",
                      first_failure);
}

}  // namespace castor
