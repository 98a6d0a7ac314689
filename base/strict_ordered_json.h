// JSON whose keys keep the order in which the text has them: otherwise as
// strict_json.h has it, but that an integer of more than 64 bits is refused.
#ifndef CASTOR_BASE_STRICT_ORDERED_JSON_H_
#define CASTOR_BASE_STRICT_ORDERED_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"

namespace castor {

absl::StatusOr<nlohmann::ordered_json> ParseStrictOrderedJson(
    absl::string_view text, const JsonLimits& limits = {});

}  // namespace castor

#endif  // CASTOR_BASE_STRICT_ORDERED_JSON_H_
