#include "cli/train/run_checkpoints.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "device/comm/first_rank.h"
#include "runtime/checkpoint/checkpoint_parts.h"
#include "runtime/checkpoint/checkpoint_size.h"

namespace castor::cli {
namespace {

constexpr int kFailedSavesToStop = 3;

void Warn(absl::string_view text) {
  std::fflush(stdout);
  std::fprintf(stderr, "castor: %s\n", std::string(text).c_str());
}

}  // namespace

RunCheckpoints::RunCheckpoints(std::string resume, bool changed,
                               Session* session)
    : resume_(std::move(resume)),
      changed_(changed),
      session_(*session),
      config_(session->config()),
      directory_(config_.checkpoint.dir),
      ranks_(session->trainer().communicator()),
      first_(ranks_ == nullptr || ranks_->rank() == 0) {}

RunCheckpoints::~RunCheckpoints() {
  lock_.reset();
  // Directories in which there is something now stay.
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
    rmdir(made->c_str());
  }
}

absl::Status RunCheckpoints::Restore() {
  CASTOR_ASSIGN_OR_RETURN(
      run_id_, FromFirstRank(ranks_, "the checkpoint directory", Claim()));
  return resume_.empty() ? session_.Initialize() : Resume();
}

// The run's id, on rank 0, which now has the directory.
absl::StatusOr<std::string> RunCheckpoints::Claim() {
  if (!first_) return "";
  std::string run_id = NewSaveId();
  if (!config_.checkpoint.dir.empty()) {
    CASTOR_RETURN_IF_ERROR(ClaimDirectory(run_id));
  }
  return run_id;
}

absl::Status RunCheckpoints::ClaimDirectory(const std::string& run_id) {
  if (resume_ != "latest") {
    auto made = directory_.Make();
    CASTOR_RETURN_IF_ERROR(Annotate("checkpoint.dir", made.status()));
    made_ = *std::move(made);
  }
  if (!config_.checkpoint.lock) return absl::OkStatus();
  auto lock = CheckpointLock::Take(directory_.directory(), run_id);
  if (absl::IsNotFound(lock.status())) {
    // What there is none of has no latest either.
    CASTOR_RETURN_IF_ERROR(FindLatest().status());
  }
  CASTOR_RETURN_IF_ERROR(Annotate("checkpoint.dir", lock.status()));
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::StatusOr<std::string> RunCheckpoints::FindLatest() {
  if (config_.checkpoint.dir.empty()) {
    return absl::InvalidArgumentError(
        "--resume latest: the config has no checkpoint.dir");
  }
  std::vector<std::string> skipped;
  const absl::StatusOr<CheckpointEntry> entry = directory_.FindLatest(&skipped);
  CASTOR_RETURN_IF_ERROR(Annotate("--resume latest", entry.status()));
  for (const std::string& message : skipped) Warn(message);
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
  if (!IsCheckpoint(path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--resume: \"", path,
        "\" is a directory, and no checkpoint: name one that is in it, or say "
        "--resume latest for the newest in checkpoint.dir"));
  }
  std::vector<std::string> differences;
  CASTOR_RETURN_IF_ERROR(
      Annotate("--resume", session_.Restore(path, changed_, &differences)));
  const int64_t step = session_.trainer().step();
  std::error_code error;
  const bool saved =
      !config_.checkpoint.dir.empty() &&
      std::filesystem::equivalent(path, directory_.PathOf(step), error);
  CASTOR_ASSIGN_OR_RETURN(const std::string first_saved,
                          FromFirstRank(ranks_, "whether the step is saved",
                                        std::string(saved ? "yes" : "no")));
  if (first_saved == "yes") {
    saved_step_ = step;
    unproven_ = 1;
  }
  if (!session_.restored_run().empty()) run_id_ = session_.restored_run();
  std::printf("resumed from %s at step %ld%s\n", path.c_str(),
              static_cast<long>(step),
              step >= config_.steps ? "; that is all of them (see steps)" : "");
  if (!differences.empty()) {
    std::printf("with other settings than until then:\n");
  }
  for (const std::string& difference : differences) {
    std::printf("  %s\n", difference.c_str());
  }
  return absl::OkStatus();
}

absl::Status RunCheckpoints::Prepare() {
  if (config_.checkpoint.dir.empty() || !first_) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(Annotate("checkpoint.dir", PrepareDirectory()));
  made_.clear();
  return absl::OkStatus();
}

absl::Status RunCheckpoints::PrepareDirectory() {
  if (lock_ != nullptr) CASTOR_RETURN_IF_ERROR(lock_->SetRun(run_id_));
  absl::Status problem;
  CASTOR_RETURN_IF_ERROR(directory_.RemoveStaleTemporaries(&problem).status());
  if (!problem.ok()) {
    Warn(absl::StrCat("what a killed run has left behind stays: ",
                      problem.message()));
  }
  const Trainer& trainer = session_.trainer();
  // The newest valid one is there to go on from; what is above it is damaged.
  const bool moves = resume_ != "latest";
  const int64_t last_step = !moves ? std::numeric_limits<int64_t>::max()
                            : resume_.empty() ? -1
                                              : trainer.step();
  CASTOR_RETURN_IF_ERROR(
      directory_.CheckRoom(CheckpointBytes(trainer.parameters(),
                                           session_.trainer().store().layout()),
                           SavesToCome(), config_.checkpoint.keep, last_step));
  if (!moves) return absl::OkStatus();
  CASTOR_ASSIGN_OR_RETURN(const std::string aside,
                          directory_.MoveLaterAside(last_step));
  if (!aside.empty()) {
    std::printf("checkpoints of an earlier run moved to %s\n", aside.c_str());
  }
  return absl::OkStatus();
}

int64_t RunCheckpoints::SavesToCome() const {
  const int64_t from = session_.trainer().step(), to = config_.steps;
  if (from >= to) return saved_step_ == from ? 0 : 1;
  const int64_t interval = config_.checkpoint.save_interval;
  if (interval == 0) return 1;
  return to / interval - from / interval + (to % interval != 0);
}

// Each attempt writes new files: after a failed fsync a second one of the same
// file says nothing. All ranks take the same way, for they have the same
// status.
absl::Status RunCheckpoints::TrySave(int64_t step) {
  const std::string path = directory_.PathOf(step);
  absl::Status saved = session_.Save(path, run_id_);
  if (!absl::IsAborted(saved)) return saved;
  const std::string first(saved.message());
  saved = session_.Save(path, run_id_);
  if (saved.ok() && first_) {
    Warn(absl::StrCat("step ", step, " was saved at the second attempt; ",
                      first));
  }
  return saved;
}

absl::Status RunCheckpoints::SaveLast() {
  const int64_t step = session_.trainer().step();
  if (config_.checkpoint.dir.empty() || step == saved_step_) {
    return absl::OkStatus();
  }
  CASTOR_RETURN_IF_ERROR(TrySave(step));
  saved_step_ = step;
  ++unproven_;
  failed_in_a_row_ = 0;
  Prune();
  return absl::OkStatus();
}

absl::Status RunCheckpoints::Save() {
  // In fp16 the steps since the newest were skipped then: it has these values.
  if (unproven_ > 0) return absl::OkStatus();
  const int64_t step = session_.trainer().step();
  const absl::Status saved = SaveLast();
  if (!absl::IsAborted(saved)) return saved;
  ++failed_in_a_row_;
  if (config_.checkpoint.on_error == OnSaveError::kStop &&
      failed_in_a_row_ == kFailedSavesToStop) {
    return absl::AbortedError(absl::StrCat(
        "step ", step, " is not saved, nor were the ", kFailedSavesToStop - 1,
        " before it (checkpoint.on_error: stop): ", saved.message()));
  }
  if (first_) {
    Warn(absl::StrCat("step ", step,
                      " is not saved, training goes on: ", saved.message()));
  }
  return absl::OkStatus();
}

void RunCheckpoints::Prove() {
  if (unproven_ == 0) return;
  proven_step_ = saved_step_;
  const bool too_many = unproven_ + 1 > config_.checkpoint.keep;
  unproven_ = 0;
  if (too_many) Prune();
}

// What is too much is no reason to end a run.
void RunCheckpoints::Prune() {
  if (!first_) return;
  const int64_t proven = 1;
  const absl::Status pruned = directory_.Prune(
      std::max(config_.checkpoint.keep, unproven_ + proven), saved_step_);
  if (pruned.ok() || pruned.message() == pruning_told_) return;
  pruning_told_ = std::string(pruned.message());
  Warn(absl::StrCat("an old checkpoint stays: ", pruned.message()));
}

absl::Status RunCheckpoints::WithWayBack(const absl::Status& status) const {
  const bool diverged =
      absl::IsFailedPrecondition(status) || absl::IsOutOfRange(status);
  if (!diverged || proven_step_ < 0) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(),
                   " (the newest from which a step had a finite loss: "
                   "--resume ",
                   directory_.PathOf(proven_step_), ")"));
}

std::string RunCheckpoints::newest() const {
  return saved_step_ < 0 || config_.checkpoint.dir.empty()
             ? ""
             : directory_.PathOf(saved_step_);
}

}  // namespace castor::cli
