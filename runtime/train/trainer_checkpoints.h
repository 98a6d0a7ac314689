// The checkpoints of a program that trains a model of its own: the same files
// as castor train's (run/checkpoint/), in a directory of the run.
//
//   castor::TrainerCheckpoints checkpoints("out", trainer.get());
//   castor::InitialValues values(engine.seed());
//   CASTOR_ASSIGN_OR_RETURN(const auto begun, checkpoints.Begin(values));
//   while (trainer->step() < steps) {
//     ... trainer->Step(next_micro_batch) ...
//     CASTOR_RETURN_IF_ERROR(checkpoints.Save());   // now and then
//   }
//
// A run that is killed at any instant and started again goes on from its newest
// checkpoint, to the same bits (promise P4), at any budget. Where it is in its
// data follows from the number of steps, or is in the text that Save keeps.
#ifndef CASTOR_RUNTIME_TRAIN_TRAINER_CHECKPOINTS_H_
#define CASTOR_RUNTIME_TRAIN_TRAINER_CHECKPOINTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "run/checkpoint/run_directory.h"
#include "run/model/model_state.h"
#include "runtime/train/trainer.h"

namespace castor {

struct TrainerCheckpointsOptions {
  int64_t keep = 2;  // how many of the newest stay; 0: all
  bool lock = true;  // false: the user sees to it that no second run saves
};

// Several ranks call the same functions together, about a directory that all of
// them see. What fails on one fails on all.
class TrainerCheckpoints {
 public:
  using Options = TrainerCheckpointsOptions;

  // `trainer` outlives it. The directory is made by Begin where it is missing.
  TrainerCheckpoints(std::string directory, Trainer* trainer,
                     Options options = {});
  TrainerCheckpoints(const TrainerCheckpoints&) = delete;
  TrainerCheckpoints& operator=(const TrainerCheckpoints&) = delete;

  struct Begun {
    std::string path;  // the checkpoint; "": the run begins from step 0
    std::string text;  // what Save kept in it
    // Messages for the user, a line each, on rank 0: newer checkpoints that are
    // damaged, files that killed runs left behind.
    std::vector<std::string> notes;
  };
  // Instead of Trainer::Initialize, once: parameters, optimizer states and the
  // step are those of the newest checkpoint that is whole or, where there is
  // none, parameters are `initial`'s. No other run saves in the directory until
  // this object is gone.
  //
  // InvalidArgument: the checkpoint is of another model, of another optimizer,
  // seed or type of parameters, which the message lists, or another program's,
  // such as castor train's. FailedPrecondition: another run has the directory.
  absl::StatusOr<Begun> Begin(ParameterSource& initial);

  // Saves the trainer's step, after Begin. Waits until all work is over.
  // InvalidArgument: `text`, which only the program reads, has more than
  // kMaxClientTextBytes. OutOfRange: a value is not finite. Aborted: the files
  // could not be written, at a second attempt either. What was there stays, and
  // the run can go on.
  absl::Status Save(const std::string& text = "");

 private:
  bool first() const;
  absl::Status Agree(const absl::Status& mine);
  absl::Status Resume(Begun* begun);

  Trainer& trainer_;
  const Options options_;
  RunDirectory directory_;
  std::string run_id_;
  bool begun_ = false;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_TRAIN_TRAINER_CHECKPOINTS_H_
