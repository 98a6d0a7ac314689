// A model's logits, for tests that compare them.
#ifndef CASTOR_TESTS_MODEL_LOGITS_H_
#define CASTOR_TESTS_MODEL_LOGITS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "run/config/model_config.h"
#include "run/model/parameter.h"
#include "runtime/train/micro_batch.h"

namespace castor::testing {

// A parameter's values.
using ParameterValues =
    std::function<absl::StatusOr<std::vector<float>>(const Parameter&)>;

// The logits [B, T, V] of `model` for `batch`, whose targets do not count, in
// fp32 and in plain memory.
absl::StatusOr<std::vector<float>> LogitsOf(const ModelConfig& model,
                                            const ParameterValues& values,
                                            const StepShape& shape,
                                            MicroBatch batch);

}  // namespace castor::testing

#endif  // CASTOR_TESTS_MODEL_LOGITS_H_
