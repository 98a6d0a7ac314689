// The keys of a configuration that say how long a run is, how its learning rate
// changes on the way, and when it is judged.
#ifndef CASTOR_RUN_CONFIG_RUN_LENGTH_H_
#define CASTOR_RUN_CONFIG_RUN_LENGTH_H_

#include <cstdint>
#include <optional>

#include "base/json_reader.h"
#include "run/config/config.h"

namespace castor {

// Reads "steps" or "num_train_epochs", exactly one of them. The data are there
// already.
void ReadLength(JsonReader& root, Config* config);

// Reads "scheduler", "lr_scheduler_type" and "lr_scheduler_kwargs". The steps
// and the optimizer's rate are there already; a run that has neither "steps"
// nor "num_train_epochs" gives all that a schedule would take from them.
void ReadSchedule(JsonReader& root, Config* config);

// Reads when the run evaluates and when it stops early. The data and
// the checkpoints are there already.
void ReadEvaluation(JsonReader& root, Config* config);

// One pass over the training data.
struct EpochSize {
  int64_t samples = 0;  // 0: the data were not opened
  int64_t tokens = 0;   // without what pads samples
  int64_t records = 0;  // that share the samples, as rows; 0: each is one
  // How many of the tokens are learned; none: nobody counted them.
  std::optional<int64_t> learned = {};
  int64_t steps = 0;  // StepsPerEpoch
};

// The steps of one pass over `samples` samples. The last batch of a pass that
// is not full is filled up with the first samples of the next one.
int64_t StepsPerEpoch(int64_t samples, int64_t batch);
// The steps of `epochs` passes of so many steps, rounded up as Hugging Face's
// Trainer does; at most kMaxSteps.
int64_t StepsOfEpochs(double epochs, int64_t steps_per_epoch);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_RUN_LENGTH_H_
