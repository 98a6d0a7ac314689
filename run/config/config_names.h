// The JSON names of the config's enumerations, in the order of their values.
// Only config.cc and config_to_json.cc include this.
#ifndef CASTOR_RUN_CONFIG_CONFIG_NAMES_H_
#define CASTOR_RUN_CONFIG_CONFIG_NAMES_H_

#include "absl/strings/string_view.h"

namespace castor::config_names {

inline constexpr absl::string_view kTokenTypes[] = {"uint16", "uint32"};
inline constexpr absl::string_view kSchedulers[] = {
    "none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR",
    "WarmupInverseSqrtLR"};
inline constexpr absl::string_view kWarmups[] = {"log", "linear"};
inline constexpr absl::string_view kDevices[] = {"host", "cuda"};
inline constexpr absl::string_view kOnNonFinites[] = {"error", "skip"};
inline constexpr absl::string_view kMissingGradients[] = {"skip", "zero"};
inline constexpr absl::string_view kOnSaveErrors[] = {"stop", "continue"};

}  // namespace castor::config_names

#endif  // CASTOR_RUN_CONFIG_CONFIG_NAMES_H_
