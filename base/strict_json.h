// JSON from files that may be hostile: parsed whole or refused, never guessed.
//
// Refused beyond what JSON itself forbids: nesting deeper than a limit, more
// values than a limit, and an object that names one key twice (where most
// parsers silently keep the last).
#ifndef CASTOR_BASE_STRICT_JSON_H_
#define CASTOR_BASE_STRICT_JSON_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace castor {

struct JsonLimits {
  int max_depth = 16;
  // Objects, arrays and scalars together: bounds the memory of the result to
  // some 100 bytes each, however the text is made.
  int64_t max_values = 10'000'000;
  // Whether // and /* */ comments are skipped, or refused as JSON has it.
  bool allow_comments = false;
};

// InvalidArgument says what is wrong and at which byte; the caller adds whose
// text it is. Where there is no memory for the values, std::bad_alloc leaves:
// that is nothing wrong with the text (base/enough_memory.h makes it a status).
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text,
                                               const JsonLimits& limits = {});

// A name out of a file, fit for an error message: in double quotes, with bytes
// that could disturb a terminal escaped, and cut when it is very long.
std::string QuotedForMessage(absl::string_view name);

}  // namespace castor

#endif  // CASTOR_BASE_STRICT_JSON_H_
