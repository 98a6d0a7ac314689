// The micro batches of a configuration's runs, of all ranks and of each.
#ifndef CASTOR_CLI_RUN_MICRO_BATCHES_H_
#define CASTOR_CLI_RUN_MICRO_BATCHES_H_

#include <cstdint>

#include "run/config/config.h"
#include "runtime/autograd/engine.h"
#include "runtime/data/data_set.h"
#include "runtime/train/trainer.h"

namespace castor::cli {

// Returns the shape of a step of all ranks together.
StepShape ShapeOf(const Config& config);

// Returns a source of this rank's share of the batches from `position` on: one
// after another, those whose number is the rank's modulo the world size.
// `data`, with targets of the kind that `model` has, and `model` are borrowed.
Trainer::NextMicroBatch ShareOf(const DataSet& data, const Architecture& model,
                                int64_t position, const StepShape& shape,
                                const RankOptions& ranks);

// Does the same for the first `samples` samples, each of which comes once:
// samples that fill up the last batch have no labels.
Trainer::NextMicroBatch EachOnce(const DataSet& data, const Architecture& model,
                                 int64_t samples, const StepShape& shape,
                                 const RankOptions& ranks);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_MICRO_BATCHES_H_
