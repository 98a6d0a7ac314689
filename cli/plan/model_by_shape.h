// The run that `castor plan --model NAME` plans, which has no configuration.
#ifndef CASTOR_CLI_PLAN_MODEL_BY_SHAPE_H_
#define CASTOR_CLI_PLAN_MODEL_BY_SHAPE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "run/config/config.h"

namespace castor::cli {

// Returns a training in bf16 with AdamW of a model of these sizes from new
// values. `model` is a name of models/shapes/, a directory with a config.json,
// or such a file: a path has a slash in it, or ends in .json. Settings that
// `overrides` do not give have defaults: one micro batch of eight samples of at
// most 2048 tokens in a step of each rank (several would need sums of
// gradients), activations kept where they have room.
// InvalidArgument: an unknown name, a file that is no model's, or an override
// that is wrong or is about data, which such a plan does not have. NotFound:
// there is no such file.
absl::StatusOr<Config> ConfigOfShape(const std::string& model,
                                     const std::vector<std::string>& overrides,
                                     int world_size);

// Returns two lines that describe the plan's run, defaults included: "model:
// ..." and "run: ...".
std::string DescribeShape(const std::string& model, const Config& config);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_MODEL_BY_SHAPE_H_
