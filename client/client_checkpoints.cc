#include "client/client_checkpoints.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"
#include "device/comm/first_rank.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/run_identity.h"

namespace castor {
namespace {

// Stands in a checkpoint for the data, which only the client knows.
constexpr char kClientsData[] = "the client's";

// How often other ranks hear that rank 0 is still reading a checkpoint.
constexpr int64_t kRoundNs = 10'000'000'000;
constexpr char kFindKey[] = "the checkpoint to load";

}  // namespace

ClientCheckpoints::ClientCheckpoints(ClientRun* run, Config config)
    : run_(*run),
      ranks_(run->communicator()),
      config_(std::move(config)),
      run_id_(NewSaveId()) {}

absl::Status ClientCheckpoints::Claim(const std::string& directory,
                                      const std::string& text,
                                      const SaveOptions& options,
                                      std::vector<std::string>* notes) {
  if (static_cast<int64_t>(text.size()) > kMaxClientTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the client's own part of a checkpoint has ", text.size(),
                     " bytes; there is room for ", kMaxClientTextBytes));
  }
  if (claimed_ != nullptr && claimed_->files().directory() == directory) {
    return absl::OkStatus();
  }
  auto claimed = std::make_unique<RunDirectory>(directory);
  CASTOR_RETURN_IF_ERROR(claimed->Claim(run_id_, {.lock = options.lock}));
  DirectoryNotes found;
  CASTOR_RETURN_IF_ERROR(claimed->RemoveStale(&found));
  CASTOR_RETURN_IF_ERROR(
      claimed->MakeWay(loaded_step_, options.keep_aside, &found));
  notes->insert(notes->end(), found.changes.begin(), found.changes.end());
  notes->insert(notes->end(), found.problems.begin(), found.problems.end());
  claimed_ = std::move(claimed);
  return absl::OkStatus();
}

absl::StatusOr<ClientCheckpoints::Saved> ClientCheckpoints::Save(
    const std::string& directory, std::string text, SaveOptions options) {
  CASTOR_RETURN_IF_ERROR(run_.MeetBetweenSteps(
      RankCall::kSaveCheckpoint,
      absl::StrCat(directory, ", keep ", options.keep, ", lock ", options.lock,
                   ", aside ", options.keep_aside)));
  Saved saved;
  absl::Status claimed = first() ? Claim(directory, text, options, &saved.notes)
                                 : absl::OkStatus();
  if (ranks_ != nullptr) {
    claimed = AgreeOnStatus(*ranks_, "the checkpoint directory", claimed);
  }
  CASTOR_RETURN_IF_ERROR(claimed);
  const int64_t step = run_.steps();
  saved.path = CheckpointDir(directory).PathOf(step);
  CheckpointMetadata metadata;
  metadata.state.seed = config_.seed;
  metadata.config = config_;
  metadata.client = std::move(text);
  metadata.run = {run_id_, kClientsData};
  std::string first_failure;
  const absl::Status written = SaveTwice(
      [&] { return run_.Save(saved.path, metadata); }, &first_failure);
  if (absl::IsAborted(written)) {
    return absl::UnavailableError(
        absl::StrCat("step ", step, " is not saved: ", written.message()));
  }
  CASTOR_RETURN_IF_ERROR(written);
  if (!first()) return saved;
  if (!first_failure.empty()) {
    saved.notes.push_back(SecondAttemptNote(step, first_failure));
  }
  if (options.keep > 0) {
    const std::string note = claimed_->Prune(options.keep, step);
    if (!note.empty()) saved.notes.push_back(note);
  }
  return saved;
}

std::vector<std::string> ClientCheckpoints::DifferencesFrom(
    const CheckpointMetadata& metadata) const {
  if (!metadata.client.has_value()) {
    return Differences(CommonSettingsOf(metadata.config),
                       CommonSettingsOf(config_));
  }
  return Differences(
      ClientSettingsOf(metadata.config, metadata.client_world_size),
      ClientSettingsOf(config_, run_.layout().world_size));
}

// The path of what is found; every byte of it has been read, before the first
// value takes another's place.
absl::StatusOr<std::string> ClientCheckpoints::Verify(
    const std::string& path, std::vector<std::string>* notes) const {
  if (!IsCheckpoint(path)) {
    CASTOR_ASSIGN_OR_RETURN(const CheckpointEntry latest,
                            CheckpointDir(path).FindLatest(notes));
    return latest.path;
  }
  CASTOR_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(path));
  CASTOR_RETURN_IF_ERROR(ReadMetadataForClient(*reader).status());
  CASTOR_RETURN_IF_ERROR(reader->VerifyAll());
  return path;
}

// Opens what was found at found->path, for Take. The result tells it from other
// checkpoints.
absl::StatusOr<std::string> ClientCheckpoints::Open(bool changed,
                                                    Found* found) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(found->path));
  CASTOR_ASSIGN_OR_RETURN(CheckpointMetadata metadata,
                          ReadMetadataForClient(*reader));
  CASTOR_ASSIGN_OR_RETURN(const uint64_t identity, reader->Identity());
  if (changed) {
    CASTOR_RETURN_IF_ERROR(CheckSameStates(
        found->path, *metadata.config.optimizer.rule, *config_.optimizer.rule));
  }
  CASTOR_ASSIGN_OR_RETURN(
      found_, CheckpointSource::Create(std::move(reader), run_.parameters(),
                                       run_.layout()));
  found->differences = DifferencesFrom(metadata);
  if (!changed && !found->differences.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        found->path, " is of a run with other settings (",
        absl::StrJoin(found->differences, "; "),
        "): set them to what they were, or say that they changed (in PyTorch: "
        "changed=True)"));
  }
  found_state_ = metadata.state.trainer;
  found->step = found_state_.step;
  found->text = std::move(metadata.client);
  const bool same_run = found->text.has_value() && found->differences.empty();
  found_run_id_ = same_run ? metadata.run.id : NewSaveId();
  return absl::StrCat(absl::Hex(identity));
}

absl::StatusOr<ClientCheckpoints::Found> ClientCheckpoints::Find(
    const std::string& path, bool changed) {
  CASTOR_RETURN_IF_ERROR(run_.MeetBetweenSteps(
      RankCall::kFindCheckpoint,
      absl::StrCat(path, changed ? ", with other settings" : "")));
  found_ = nullptr;
  Found found;
  CASTOR_ASSIGN_OR_RETURN(
      found.path, FromFirstRankInItsTime(ranks_, kFindKey, kRoundNs, [&] {
        return Verify(path, &found.notes);
      }));
  const absl::StatusOr<std::string> identity = Open(changed, &found);
  absl::Status opened = identity.status();
  if (ranks_ != nullptr) {
    // If rank 0 cannot open it, rank 0 says so itself.
    std::string firsts = opened.ok() ? *identity : "";
    CASTOR_RETURN_IF_ERROR(BroadcastText(*ranks_, kFindKey, 0, &firsts));
    if (opened.ok() && *identity != firsts) {
      opened = absl::FailedPreconditionError(
          absl::StrCat(found.path,
                       " is another file than rank 0's of that name: all ranks "
                       "load from a directory that all of them see"));
    }
    opened = AgreeOnStatus(*ranks_, kFindKey, opened);
  }
  if (!opened.ok()) {
    found_ = nullptr;
    return opened;
  }
  return found;
}

absl::Status ClientCheckpoints::Load() {
  CASTOR_RETURN_IF_ERROR(run_.MeetBetweenSteps(
      RankCall::kLoadCheckpoint, found_ == nullptr ? "none" : "one"));
  const std::unique_ptr<CheckpointSource> source = std::move(found_);
  if (source == nullptr) {
    return absl::FailedPreconditionError("no checkpoint was found to load");
  }
  CASTOR_RETURN_IF_ERROR(run_.Restore(*source, found_state_));
  run_id_ = found_run_id_;
  loaded_step_ = found_state_.step;
  // Checkpoints that were saved since are of later steps of another run.
  claimed_ = nullptr;
  return absl::OkStatus();
}

}  // namespace castor
