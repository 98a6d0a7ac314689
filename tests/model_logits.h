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

namespace castor::testing {

// A parameter's values.
using ParameterValues =
    std::function<absl::StatusOr<std::vector<float>>(const Parameter&)>;

// The logits [B, T, V] of `model`, a causal language model, for `tokens`
// [batch, T], in fp32 and in plain memory.
absl::StatusOr<std::vector<float>> LogitsOf(const ModelConfig& model,
                                            const ParameterValues& values,
                                            std::vector<int32_t> tokens,
                                            int64_t batch);

}  // namespace castor::testing

#endif  // CASTOR_TESTS_MODEL_LOGITS_H_
