// `--set a.b=VALUE`: changes to a JSON document from the command line.
#ifndef CASTOR_RUN_CONFIG_OVERRIDES_H_
#define CASTOR_RUN_CONFIG_OVERRIDES_H_

#include <string>

#include "absl/types/span.h"
#include "base/json_report.h"
#include "nlohmann/json.hpp"

namespace castor {

// Applies each "a.b=VALUE" in turn to `document`, an object. VALUE is JSON, or
// else a string as it stands. Objects on the way are made where they are
// missing; whether the key means anything is for the reader of the document,
// which `report` tells that "--set a.b=VALUE" is its source. One that cannot be
// applied goes into the report: no '=', an empty part of the path, a part that
// leads through something that is no object (lists are set whole).
void ApplyOverrides(absl::Span<const std::string> overrides,
                    nlohmann::json* document, JsonReport* report);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_OVERRIDES_H_
