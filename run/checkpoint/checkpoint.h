// A training run's state in a checkpoint, and back. What is saved does not
// depend on policy, budget or chunk size, nor, but for its cut into parts, on
// the number of ranks; any other number resumes it (promise P4).
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/communicator.h"
#include "memory/plan/layout/chunk_layout.h"
#include "run/checkpoint/best_state.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/checkpoint/run_identity.h"
#include "run/checkpoint/trainer_state.h"
#include "run/config/config.h"
#include "run/model/model_state.h"

namespace castor {

// Everything that the next step depends on, beside parameters and optimizer
// states. Random numbers come from counters, so the seed and the step are the
// state of every generator; the position in the data is a number of samples.
struct RunState {
  TrainerState trainer;
  int64_t samples = 0;  // of training data consumed
  int64_t seed = 0;
  BestState best = {};  // of a run that evaluates
  // Where the reader of streamed data was, an object of JSON
  // (StreamedSet::BookmarkAt). "": the run's data are not streamed.
  std::string stream = {};
};

struct CheckpointMetadata {
  RunState state;
  Config config;  // the run's, effective
  // A text of at most kMaxClientTextBytes that a client, a program that trains
  // a model of its own (client/), keeps in the checkpoint for itself. Nobody
  // else reads it. A client's `config` has neither model nor data, and it
  // counts no samples.
  std::optional<std::string> client = {};
  int64_t client_world_size = 1;  // of a client: its ranks
  RunIdentity run = {};
  // Files that belong to the model and go with it, by name: its tokenizer's and
  // its settings for generation. Castor train's checkpoints have them, so that
  // an export needs no other directory; those of before did not.
  std::map<std::string, std::string> files = {};
  // DigestOf the run's settings as they were when it was written; "" without a
  // run.id. FormatMetadata makes it.
  std::string digest = {};
};

inline constexpr int64_t kMaxClientTextBytes = int64_t{32} << 20;
// Files of more than this together are not kept.
inline constexpr int64_t kMaxKeptFilesBytes = int64_t{24} << 20;

// Writes `path`, atomically: one rank a file, several a directory, each its own
// part of it, at the same time. With several, all call it; `communicator` is
// null on one. Nothing may be changing the parameters (Trainer::Drain).
// `config.model` must have its sizes.
//
// It is written or it is not, on all ranks alike: what stops one, fails all
// with that one's reason, and what was there before stays. Aborted: files could
// not be written (a full disk); what is in memory is as it was, and another
// call begins again with new files. OutOfRange: a value is not finite (such a
// checkpoint would take the place of one that is good). FailedPrecondition: a
// rank does not see the others' files. Unavailable: a lost rank.
absl::Status SaveCheckpoint(const std::string& path,
                            const Parameters& parameters, ChunkStore& store,
                            const CheckpointMetadata& metadata,
                            Communicator* communicator);

// The metadata as JSON, and what ReadMetadata makes of it again. DataLoss,
// InvalidArgument: what is in the metadata is not ours. ResourceExhausted:
// there is not enough memory for them.
std::string FormatMetadata(const CheckpointMetadata& metadata);
// `models` reads the model's section of the run's configuration, if the run was
// no client's.
absl::StatusOr<CheckpointMetadata> ReadMetadata(const CheckpointReader& reader,
                                                const ModelReader& models);
// Reads for a client, which knows no family of models: `config` is without
// model and data, whoever wrote the checkpoint.
absl::StatusOr<CheckpointMetadata> ReadMetadataForClient(
    const CheckpointReader& reader);
// FailedPrecondition: the checkpoint is a client's, so that it does not say
// what the model is.
absl::Status CheckHasModel(const CheckpointReader& reader,
                           const CheckpointMetadata& metadata);

// InvalidArgument: the optimizer of the run that wrote `path` keeps other
// states of a parameter than that of the run that would go on with it.
absl::Status CheckSameStates(absl::string_view path, const Optimizer& then,
                             const Optimizer& now);

// Values and states from a checkpoint: the ranges that this rank asks for.
class CheckpointSource final : public ParameterSource {
 public:
  // InvalidArgument lists the parameters that are missing, too many, of another
  // size or with other rows and columns than those of `layout`, which is that
  // of `parameters`, or says that there are states that an optimizer with its
  // states does not keep. A parameter that was frozen when the checkpoint was
  // written and now is not starts with states of 0.
  static absl::StatusOr<std::unique_ptr<CheckpointSource>> Create(
      std::unique_ptr<CheckpointReader> reader, const Parameters& parameters,
      const ChunkLayout& layout);

  // InvalidArgument: a value is infinite or NaN.
  absl::Status Read(const Parameter& parameter, StatePart part, int64_t begin,
                    int64_t end, float* out) override;

 private:
  explicit CheckpointSource(std::unique_ptr<CheckpointReader> reader)
      : reader_(std::move(reader)) {}
  const std::unique_ptr<CheckpointReader> reader_;
};

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_H_
