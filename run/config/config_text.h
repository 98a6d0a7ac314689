// A configuration's text as a JSON document.
#ifndef CASTOR_RUN_CONFIG_CONFIG_TEXT_H_
#define CASTOR_RUN_CONFIG_CONFIG_TEXT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace castor {

// Comments are allowed. InvalidArgument, which begins with `source`, the name
// of the text: it is no JSON; where it is YAML, TOML or Python, the message
// says so.
absl::StatusOr<nlohmann::json> ParseConfigText(absl::string_view text,
                                               absl::string_view source);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_CONFIG_TEXT_H_
