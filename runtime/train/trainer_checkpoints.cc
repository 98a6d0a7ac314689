#include "runtime/train/trainer_checkpoints.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"
#include "device/comm/first_rank.h"
#include "nlohmann/json.hpp"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/checkpoint/run_identity.h"
#include "run/config/config.h"

namespace castor {
namespace {

constexpr char kKey[] = "the checkpoints of this program";
// The time between two messages to other ranks that rank 0 is still reading a
// checkpoint.
constexpr int64_t kRoundNs = 10'000'000'000;
// Stands in a checkpoint for the data, which only the program knows.
constexpr char kOwnData[] = "the program's own";

// The client's text of such a checkpoint is an object with these keys.
constexpr char kSettings[] = "trainer";
constexpr char kText[] = "text";

// Returns the settings of the trainer that determine bits and are not in the
// parameters' names.
nlohmann::json IdentityOf(const Trainer& trainer) {
  const Optimizer& optimizer = trainer.optimizer();
  return {{"seed", trainer.engine().seed()},
          {"parameters", DTypeName(trainer.engine().dtype())},
          {"optimizer",
           {{"type", optimizer.name()},
            {"master", MasterFormatName(optimizer.formats().master)},
            {"moments", MomentFormatName(optimizer.formats().moments)},
            {"params", nlohmann::json(optimizer.Params())}}}};
}

// Returns what a checkpoint says of its run, as far as castor's configurations
// have keys for it. An optimizer of the program's own has no place there.
Config ConfigOf(const Trainer& trainer) {
  Config config;
  config.gradient_accumulation_steps = 1;
  config.bf16.enabled = trainer.engine().dtype() == DType::kBFloat16;
  config.fp16.enabled = trainer.engine().dtype() == DType::kFloat16;
  return config;
}

}  // namespace

TrainerCheckpoints::TrainerCheckpoints(std::string directory, Trainer* trainer,
                                       Options options)
    : trainer_(*trainer),
      options_(options),
      directory_(std::move(directory)),
      run_id_(NewSaveId()) {}

bool TrainerCheckpoints::first() const {
  const Communicator* ranks = trainer_.communicator();
  return ranks == nullptr || ranks->rank() == 0;
}

absl::Status TrainerCheckpoints::Agree(const absl::Status& mine) {
  Communicator* ranks = trainer_.communicator();
  return ranks == nullptr ? mine : AgreeOnStatus(*ranks, kKey, mine);
}

absl::StatusOr<TrainerCheckpoints::Begun> TrainerCheckpoints::Begin(
    ParameterSource& initial) {
  if (begun_) {
    return absl::FailedPreconditionError("Begin is called once");
  }
  Begun begun;
  DirectoryNotes notes;
  const auto claim = [&]() -> absl::Status {
    if (!first()) return absl::OkStatus();
    CASTOR_RETURN_IF_ERROR(directory_.Claim(run_id_, {.lock = options_.lock}));
    return directory_.RemoveStale(&notes);
  };
  CASTOR_RETURN_IF_ERROR(Agree(claim()));
  CASTOR_ASSIGN_OR_RETURN(
      begun.path,
      FromFirstRankInItsTime(trainer_.communicator(), kKey, kRoundNs,
                             [&]() -> absl::StatusOr<std::string> {
                               const auto latest =
                                   directory_.files().FindLatest(&begun.notes);
                               if (latest.ok()) return latest->path;
                               if (absl::IsNotFound(latest.status())) return "";
                               return latest.status();
                             }));
  CASTOR_RETURN_IF_ERROR(begun.path.empty() ? trainer_.Initialize(initial)
                                            : Resume(&begun));
  // Checkpoints of later steps that are left are damaged, or were passed over
  // as another run's.
  CASTOR_RETURN_IF_ERROR(Agree(
      first() ? directory_.MakeWay(trainer_.step(), /*keep_aside=*/0, &notes)
              : absl::OkStatus()));
  for (auto* lines : {&notes.changes, &notes.problems}) {
    begun.notes.insert(begun.notes.end(), lines->begin(), lines->end());
  }
  begun_ = true;
  return begun;
}

absl::Status TrainerCheckpoints::Resume(Begun* begun) {
  TrainerState state;
  std::unique_ptr<CheckpointSource> source;
  const auto open = [&]() -> absl::Status {
    CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                            CheckpointReader::Open(begun->path));
    CASTOR_ASSIGN_OR_RETURN(CheckpointMetadata metadata,
                            ReadMetadataForClient(*reader));
    const auto kept =
        nlohmann::json::parse(metadata.client.value_or(""), nullptr,
                              /*allow_exceptions=*/false);
    if (!kept.is_object() || !kept.contains(kSettings) ||
        !kept[kSettings].is_object() || !kept.contains(kText) ||
        !kept[kText].is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(
          begun->path,
          " was written by castor train or by another framework's program: "
          "give this run a directory of its own, and that checkpoint's values "
          "as the initial ones (CheckpointSource)"));
    }
    const std::vector<std::string> differences =
        Differences(FlattenSettings(kept[kSettings].dump()),
                    FlattenSettings(IdentityOf(trainer_).dump()));
    if (!differences.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          begun->path, " is of a run with other settings (",
          absl::StrJoin(differences, "; "),
          "): set them to what they were, or give this run a directory of its "
          "own"));
    }
    CASTOR_ASSIGN_OR_RETURN(
        source,
        CheckpointSource::Create(std::move(reader), trainer_.parameters(),
                                 trainer_.layout()));
    state = metadata.state.trainer;
    run_id_ = metadata.run.id;
    begun->text = kept[kText].get<std::string>();
    return first() ? directory_.SetRun(run_id_) : absl::OkStatus();
  };
  CASTOR_RETURN_IF_ERROR(Agree(open()));
  return trainer_.Initialize(*source, state);
}

absl::Status TrainerCheckpoints::Save(const std::string& text) {
  if (!begun_) {
    return absl::FailedPreconditionError(
        "a run saves after TrainerCheckpoints::Begin");
  }
  CASTOR_RETURN_IF_ERROR(trainer_.Drain());
  CheckpointMetadata metadata;
  metadata.state.trainer = trainer_.state();
  metadata.state.seed = static_cast<int64_t>(trainer_.engine().seed());
  metadata.config = ConfigOf(trainer_);
  metadata.run = {run_id_, kOwnData};
  Communicator* const ranks = trainer_.communicator();
  metadata.client_world_size = ranks == nullptr ? 1 : ranks->world_size();
  const nlohmann::json kept = {{kSettings, IdentityOf(trainer_)},
                               {kText, text}};
  // Bytes that are no UTF-8 could not be told from others.
  try {
    metadata.client = kept.dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(
        "the text of a checkpoint must be UTF-8, which this is not: encode it");
  }
  if (static_cast<int64_t>(metadata.client->size()) > kMaxClientTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text of a checkpoint has ", text.size(),
                     " bytes; there is room for ", kMaxClientTextBytes));
  }
  const std::string path = directory_.files().PathOf(trainer_.step());
  std::string first_failure;
  CASTOR_RETURN_IF_ERROR(SaveTwice(
      [&] {
        return SaveCheckpoint(path, trainer_.parameters(), trainer_.store(),
                              metadata, ranks);
      },
      &first_failure));
  if (first() && options_.keep > 0) {
    // An old one that cannot be removed is no reason to end.
    directory_.Prune(options_.keep, trainer_.step());
  }
  return absl::OkStatus();
}

}  // namespace castor
