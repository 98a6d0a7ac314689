// JSON whose keys keep the order in which the text has them. All else is as in
// strict_json.h, but that an integer of more than 64 bits is refused. The text
// is parsed twice: once to refuse it, once to build its value.
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
