// A training run's state in a checkpoint file, and back. What is saved does not
// depend on policy, budget or chunk size (promise P4).
#ifndef CASTOR_RUNTIME_CHECKPOINT_H_
#define CASTOR_RUNTIME_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/config/config.h"
#include "runtime/io/checkpoint_file.h"
#include "runtime/model_state.h"

namespace castor {

// Everything that the next step depends on, beside parameters and optimizer
// states. Random numbers come from counters, so the seed and the step are the
// state of every generator; the position in the data is a number of samples.
struct RunState {
  int64_t step = 0;     // steps that are over
  int64_t samples = 0;  // of training data consumed
  int64_t seed = 0;
  double loss_scale = 1;  // 1: none in use
};

struct CheckpointMetadata {
  RunState state;
  Config config;  // the run's, effective
};

// Writes `path`, atomically. Nothing may be changing the parameters
// (Trainer::Drain). `config.model` must have its sizes. FailedPrecondition: a
// value is not finite; such a file would take the place of one that is good.
// Unimplemented: several ranks share the model.
absl::Status SaveCheckpoint(const std::string& path,
                            const Parameters& parameters, ChunkStore& store,
                            const CheckpointMetadata& metadata,
                            Communicator* communicator);

// DataLoss, InvalidArgument: what is in the metadata is not ours.
absl::StatusOr<CheckpointMetadata> ReadMetadata(const CheckpointReader& reader);

// Values and states from a checkpoint.
class CheckpointSource final : public ParameterSource {
 public:
  // InvalidArgument lists the parameters that are missing, too many or of
  // another size. A parameter that was frozen when the checkpoint was written
  // and now is not starts with states of 0.
  static absl::StatusOr<std::unique_ptr<CheckpointSource>> Create(
      std::unique_ptr<CheckpointReader> reader, const Parameters& parameters);

  absl::Status Read(const Parameter& parameter, OptimizerPart part,
                    int64_t begin, int64_t end, float* out) override;

 private:
  explicit CheckpointSource(std::unique_ptr<CheckpointReader> reader)
      : reader_(std::move(reader)) {}
  const std::unique_ptr<CheckpointReader> reader_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_CHECKPOINT_H_
