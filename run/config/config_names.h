// The JSON names of the config's enumerations, in the order of their values.
// Only this folder includes it.
#ifndef CASTOR_RUN_CONFIG_CONFIG_NAMES_H_
#define CASTOR_RUN_CONFIG_CONFIG_NAMES_H_

#include "absl/strings/string_view.h"

namespace castor::config_names {

inline constexpr absl::string_view kDevices[] = {"host", "cuda"};
inline constexpr absl::string_view kOnNonFinites[] = {"error", "skip"};
inline constexpr absl::string_view kMissingGradients[] = {"skip", "zero"};
inline constexpr absl::string_view kOnSaveErrors[] = {"stop", "continue"};
inline constexpr absl::string_view kEvalStrategies[] = {"no", "steps", "epoch"};
inline constexpr absl::string_view kBestMetrics[] = {"loss", "perplexity",
                                                     "token_accuracy"};

}  // namespace castor::config_names

#endif  // CASTOR_RUN_CONFIG_CONFIG_NAMES_H_
