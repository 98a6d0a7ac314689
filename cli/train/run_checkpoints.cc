#include "cli/train/run_checkpoints.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/output/standard_output.h"
#include "cli/run/checkpoint_place.h"
#include "device/comm/agreement.h"
#include "device/comm/first_rank.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/checkpoint/checkpoint_size.h"

namespace castor::cli {
namespace {

constexpr int kFailedSavesToStop = 3;

void Warn(absl::string_view text) {
  std::fflush(stdout);
  TellNote("castor", text);
}

}  // namespace

// The newest valid one is there to go on from; what is above it is damaged.
int64_t RunCheckpoints::LastStepThatStays(Begin begin, int64_t step) {
  switch (begin) {
    case Begin::kInitial:
      return -1;
    case Begin::kNewest:
      return std::numeric_limits<int64_t>::max();
    case Begin::kNamed:
      return step;
  }
  return -1;
}

RunCheckpoints::RunCheckpoints(std::string resume, bool changed,
                               std::string config_path, const Config* config,
                               bool first)
    : resume_(std::move(resume)),
      changed_(changed),
      config_path_(std::move(config_path)),
      config_(*config),
      run_directory_(config_.checkpoint.dir),
      directory_(run_directory_.files()),
      first_(first) {
  if (resume_.empty()) return;
  begin_ = wants_newest() ? Begin::kNewest : Begin::kNamed;
}

absl::Status RunCheckpoints::Claim() {
  if (!first_) return absl::OkStatus();
  run_id_ = NewSaveId();
  if (saves()) {
    CASTOR_RETURN_IF_ERROR(OfPlace(ClaimDirectory(), config_, config_path_));
  }
  return FindResumed();
}

absl::Status RunCheckpoints::ClaimDirectory() {
  const absl::Status claimed = run_directory_.Claim(
      run_id_,
      {.make = resume_ != "latest",
       .lock = config_.checkpoint.lock,
       .wait = {.timeout_seconds = config_.checkpoint.lock_timeout_seconds,
                .say = [](absl::string_view line) {
                  PrintLine(absl::StrCat("checkpoint.dir: ", line));
                }}});
  // A missing directory has no latest checkpoint either, as FindResumed says.
  return absl::IsNotFound(claimed) && resume_ == "latest" ? absl::OkStatus()
                                                          : claimed;
}

// Reads no values: that --resume names something can be known at once.
absl::Status RunCheckpoints::FindResumed() const {
  if (resume_.empty() || resume_ == "auto") return absl::OkStatus();
  if (resume_ == "latest") {
    if (!saves()) return FindLatest().status();
    const auto entries = directory_.List();
    return entries.ok() && !entries->empty() ? absl::OkStatus()
                                             : FindLatest().status();
  }
  if (!IsCheckpoint(resume_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--resume: \"", resume_,
        "\" is a directory, and no checkpoint: name one that is in it, or say "
        "--resume latest for the newest in checkpoint.dir"));
  }
  return Annotate("--resume", CheckpointReader::Open(resume_).status());
}

bool RunCheckpoints::Resumes() const {
  if (resume_ != "auto") return !resume_.empty();
  const auto entries = directory_.List();
  return saves() && entries.ok() && !entries->empty();
}

absl::Status RunCheckpoints::CheckRoom(const Parameters& parameters) const {
  if (!first_ || !saves()) return absl::OkStatus();
  int64_t resumed = 0;
  if (begin_ == Begin::kNamed) {
    // A file of another name says only later of which step it is.
    resumed = StepOfCheckpointName(
        std::filesystem::path(resume_).filename().string());
    if (resumed < 0) return absl::OkStatus();
  } else if (begin_ == Begin::kNewest) {
    const auto entries = directory_.List();
    if (entries.ok() && !entries->empty()) resumed = entries->back().step;
  }
  const int64_t least =
      LeastCheckpointBytes(parameters, config_.optimizer.rule->states());
  return OfPlace(directory_.CheckRoom(least, SavesFrom(config_, resumed),
                                      KeptCheckpoints(config_),
                                      LastStepThatStays(begin_, resumed)),
                 config_, config_path_);
}

absl::Status RunCheckpoints::Restore(Session* session) {
  session_ = session;
  ranks_ = session->trainer().communicator();
  CASTOR_ASSIGN_OR_RETURN(
      run_id_, FromFirstRank(ranks_, "the run", std::string(run_id_)));
  CASTOR_RETURN_IF_ERROR(CheckShared());
  std::string path = resume_;
  if (begin_ == Begin::kNewest) {
    // Every byte is read to find it: one rank will do.
    const double round_s = std::min(10.0, config_.network.timeout_seconds / 4);
    CASTOR_ASSIGN_OR_RETURN(
        path, FromFirstRankInItsTime(ranks_, "the latest checkpoint",
                                     static_cast<int64_t>(round_s * 1e9),
                                     [this] { return FindNewest(); }));
    if (path.empty()) begin_ = Begin::kInitial;
  }
  return begin_ == Begin::kInitial ? session_->Initialize() : Resume(path);
}

// Checks that the others see rank 0's directory. Otherwise none of their parts
// would ever be found, which would be known only at the first save.
absl::Status RunCheckpoints::CheckShared() const {
  if (ranks_ == nullptr || !saves() || !config_.checkpoint.lock) {
    return absl::OkStatus();
  }
  const std::string key = "the checkpoint directory";
  CASTOR_ASSIGN_OR_RETURN(const std::string directory,
                          FromFirstRank(ranks_, key, directory_.directory()));
  absl::Status status;
  if (!first_ && !CheckpointLock::IsOf(directory, run_id_)) {
    status = absl::FailedPreconditionError(absl::StrCat(
        "rank ", ranks_->rank(), " does not see ", directory,
        " as rank 0 has it: it must be on a file system that all ranks share"));
  }
  return AgreeOnStatus(*ranks_, key, OfPlace(status, config_, config_path_));
}

absl::StatusOr<std::string> RunCheckpoints::FindLatest() const {
  if (!saves()) {
    return absl::InvalidArgumentError(
        "--resume latest: the configuration says \"checkpoint\": false");
  }
  std::vector<std::string> skipped;
  const absl::StatusOr<CheckpointEntry> entry = directory_.FindLatest(&skipped);
  // Where none is valid and that ends the run, its error says why.
  if (entry.ok() || resume_ == "auto") {
    for (const std::string& message : skipped) Warn(message);
  }
  CASTOR_RETURN_IF_ERROR(
      Annotate(absl::StrCat("--resume ", resume_), entry.status()));
  return entry->path;
}

// "" where the run is to begin.
absl::StatusOr<std::string> RunCheckpoints::FindNewest() {
  if (resume_ == "auto" && !saves()) return "";
  const absl::StatusOr<std::string> latest = FindLatest();
  if (resume_ != "auto" || !absl::IsNotFound(latest.status())) return latest;
  std::printf("no checkpoint to resume from in %s: the run begins\n",
              directory_.directory().c_str());
  return "";
}

absl::Status RunCheckpoints::Resume(const std::string& path) {
  std::vector<std::string> differences;
  CASTOR_RETURN_IF_ERROR(
      Annotate("--resume", session_->Restore(path, changed_, &differences)));
  const int64_t step = session_->trainer().step();
  std::error_code error;
  const bool saved = saves() && std::filesystem::equivalent(
                                    path, directory_.PathOf(step), error);
  CASTOR_ASSIGN_OR_RETURN(const std::string first_saved,
                          FromFirstRank(ranks_, "whether the step is saved",
                                        std::string(saved ? "yes" : "no")));
  if (first_saved == "yes") {
    saved_step_ = step;
    unproven_ = 1;
  }
  if (!session_->restored_run().empty()) run_id_ = session_->restored_run();
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
  if (!saves() || !first_) return absl::OkStatus();
  return OfPlace(PrepareDirectory(), config_, config_path_);
}

absl::Status RunCheckpoints::PrepareDirectory() {
  CASTOR_RETURN_IF_ERROR(run_directory_.SetRun(run_id_));
  DirectoryNotes notes;
  CASTOR_RETURN_IF_ERROR(run_directory_.RemoveStale(&notes));
  for (const std::string& line : notes.problems) Warn(line);
  notes.problems.clear();
  const Trainer& trainer = session_->trainer();
  const int64_t last_step = LastStepThatStays(begin_, trainer.step());
  const bool all_saved =
      trainer.step() >= config_.steps && saved_step_ == trainer.step();
  CASTOR_RETURN_IF_ERROR(
      directory_.CheckRoom(CheckpointBytes(trainer.parameters(),
                                           session_->trainer().store().layout(),
                                           session_->kept_bytes()),
                           all_saved ? 0 : SavesFrom(config_, trainer.step()),
                           KeptCheckpoints(config_), last_step));
  const absl::Status made_way =
      run_directory_.MakeWay(last_step, config_.checkpoint.keep_aside, &notes);
  for (const std::string& line : notes.changes) {
    std::printf("%s\n", line.c_str());
  }
  for (const std::string& line : notes.problems) Warn(line);
  return made_way;
}

std::string RunCheckpoints::Describe() const {
  if (!config_.checkpoint.wanted) {
    return "checkpoints: none (\"checkpoint\": false)";
  }
  const int64_t interval = config_.checkpoint.save_interval;
  return absl::StrCat(
      "checkpoints: ", directory_.directory(),
      interval > 0 ? absl::StrCat(", every ", interval, " steps and at the end")
                   : ", at the end",
      config_.checkpoint.load_best ? ", and the best" : "",
      HasDefaultPlace(config_, config_path_) ? " (checkpoint.dir is not given)"
                                             : "");
}

absl::Status RunCheckpoints::TrySave(int64_t step) {
  std::string first_failure;
  const absl::Status saved = SaveTwice(
      [&] { return session_->Save(directory_.PathOf(step), run_id_); },
      &first_failure);
  if (saved.ok() && !first_failure.empty() && first_) {
    Warn(SecondAttemptNote(step, first_failure));
  }
  return saved;
}

absl::Status RunCheckpoints::SaveLast() {
  const int64_t step = session_->trainer().step();
  if (!saves() || step == saved_step_) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(TrySave(step));
  saved_step_ = step;
  ++unproven_;
  failed_in_a_row_ = 0;
  Prune();
  return absl::OkStatus();
}

absl::Status RunCheckpoints::Save() {
  // In fp16 the steps since the newest were skipped then: it has these values.
  return unproven_ > 0 ? absl::OkStatus() : SaveOrGoOn();
}

absl::Status RunCheckpoints::SaveOrGoOn() {
  const int64_t step = session_->trainer().step();
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

// Checkpoints that cannot be removed are no reason to end a run.
void RunCheckpoints::Prune() {
  if (!first_) return;
  const int64_t proven = 1;
  const std::string note = run_directory_.Prune(
      std::max(config_.checkpoint.keep, unproven_ + proven), saved_step_,
      config_.checkpoint.load_best ? session_->best().step : -1);
  if (!note.empty()) Warn(note);
}

absl::Status RunCheckpoints::WithWayBack(const absl::Status& status) const {
  if (!absl::IsOutOfRange(status) || proven_step_ < 0) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(),
                   " (the newest from which a step had a finite loss: "
                   "--resume ",
                   directory_.PathOf(proven_step_), ")"));
}

std::string RunCheckpoints::newest() const {
  return saved_step_ < 0 || !saves() ? "" : directory_.PathOf(saved_step_);
}

std::string RunCheckpoints::best() const {
  const int64_t step = session_->best().step;
  if (!saves() || !config_.checkpoint.load_best || step == 0) return "";
  const std::string path = directory_.PathOf(step);
  std::error_code error;
  return std::filesystem::exists(path, error) ? path : "";
}

}  // namespace castor::cli
