#include "cli/run_checkpoints.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "cli/ranks.h"

namespace castor::cli {
namespace {

// DIR.1, DIR.2, ...: the first that is not there.
std::string FreeNameBeside(const CheckpointDir& dir) {
  const std::filesystem::path path =
      std::filesystem::path(dir.directory()).lexically_normal();
  const std::string base =
      (path.has_filename() ? path : path.parent_path()).string();
  for (int64_t i = 1;; ++i) {
    std::string name = absl::StrCat(base, ".", i);
    std::error_code error;
    if (!std::filesystem::exists(
            std::filesystem::symlink_status(name, error))) {
      return name;
    }
  }
}

// A run does not mix its checkpoints with another's: those of later steps than
// `step`, which this run has not made, move aside. Else they would pass for the
// newest, and this run's own would be removed as the oldest.
absl::Status MoveLaterCheckpointsAside(const CheckpointDir& dir, int64_t step) {
  const auto old = dir.List();
  if (!old.ok()) return absl::OkStatus();  // no directory yet
  std::string aside;
  for (const CheckpointEntry& entry : *old) {
    if (entry.step <= step) continue;
    std::error_code error;
    if (aside.empty()) {
      aside = FreeNameBeside(dir);
      std::filesystem::create_directory(aside, error);
    }
    if (!error) {
      std::filesystem::rename(
          entry.path, absl::StrCat(aside, "/", CheckpointName(entry.step)),
          error);
    }
    if (error) {
      return absl::PermissionDeniedError(
          absl::StrCat("checkpoint.dir: ", entry.path,
                       " is of another run and cannot be "
                       "moved to ",
                       aside, ": ", error.message()));
    }
  }
  if (!aside.empty()) {
    std::printf("checkpoints of an earlier run moved to %s\n", aside.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

RunCheckpoints::RunCheckpoints(std::string resume, Session* session)
    : resume_(std::move(resume)),
      session_(*session),
      config_(session->config()),
      directory_(config_.checkpoint.dir),
      ranks_(session->trainer().communicator()),
      first_(ranks_ == nullptr || ranks_->rank() == 0) {}

absl::Status RunCheckpoints::Restore() {
  return resume_.empty() ? session_.Initialize() : Resume();
}

absl::StatusOr<std::string> RunCheckpoints::FindLatest() {
  if (config_.checkpoint.dir.empty()) {
    return absl::InvalidArgumentError(
        "--resume latest: the config has no checkpoint.dir");
  }
  std::vector<std::string> skipped;
  const absl::StatusOr<CheckpointEntry> entry = directory_.FindLatest(&skipped);
  CASTOR_RETURN_IF_ERROR(Annotate("--resume latest", entry.status()));
  for (const std::string& message : skipped) {
    std::fprintf(stderr, "castor: %s\n", message.c_str());
  }
  return entry->path;
}

absl::Status RunCheckpoints::Resume() {
  std::string path = resume_;
  if (path == "latest") {
    // Every byte is read to find it: one rank will do.
    const double round_s = std::min(10.0, config_.network.timeout_seconds / 4);
    CASTOR_ASSIGN_OR_RETURN(
        path, FromFirstRankInItsTime(ranks_, "the latest checkpoint",
                                     static_cast<int64_t>(round_s * 1e9),
                                     [this] { return FindLatest(); }));
  }
  CASTOR_RETURN_IF_ERROR(Annotate("--resume", session_.Restore(path)));
  const int64_t step = session_.trainer().step();
  std::error_code error;
  const bool saved =
      !config_.checkpoint.dir.empty() &&
      std::filesystem::equivalent(path, directory_.PathOf(step), error);
  CASTOR_ASSIGN_OR_RETURN(const std::string first_saved,
                          FromFirstRank(ranks_, "whether the step is saved",
                                        std::string(saved ? "yes" : "no")));
  if (first_saved == "yes") saved_step_ = step;
  std::printf("resumed from %s at step %ld%s\n", path.c_str(),
              static_cast<long>(step),
              step >= config_.steps ? "; that is all of them (see steps)" : "");
  return absl::OkStatus();
}

absl::Status RunCheckpoints::Prepare() {
  if (config_.checkpoint.dir.empty() || !first_) return absl::OkStatus();
  return Annotate("checkpoint.dir", PrepareDirectory());
}

absl::Status RunCheckpoints::PrepareDirectory() {
  CASTOR_RETURN_IF_ERROR(directory_.Make());
  const int64_t step = session_.trainer().step();
  // The newest valid one is there to go on from; what is above it is damaged.
  if (resume_ != "latest") {
    CASTOR_RETURN_IF_ERROR(
        MoveLaterCheckpointsAside(directory_, resume_.empty() ? -1 : step));
  }
  return directory_.RemoveStaleTemporaries().status();
}

absl::Status RunCheckpoints::Save() {
  const int64_t step = session_.trainer().step();
  if (config_.checkpoint.dir.empty() || step == saved_step_) {
    return absl::OkStatus();
  }
  CASTOR_RETURN_IF_ERROR(session_.Save(directory_.PathOf(step)));
  saved_step_ = step;
  if (!first_) return absl::OkStatus();
  return directory_.Prune(std::max<int64_t>(1, config_.checkpoint.keep), step);
}

std::string RunCheckpoints::newest() const {
  return saved_step_ < 0 || config_.checkpoint.dir.empty()
             ? ""
             : directory_.PathOf(saved_step_);
}

}  // namespace castor::cli
