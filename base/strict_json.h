// JSON from files that may be hostile: parsed whole or refused, never guessed.
//
// A NUL byte is refused in words of its own: the parser takes it for the end of
// the text, and would say nothing of what follows.
//
// Refused beyond what JSON itself forbids: nesting deeper than a limit, more
// values than a limit, and an object that names one key twice (where most
// parsers silently keep the last).
#ifndef CASTOR_BASE_STRICT_JSON_H_
#define CASTOR_BASE_STRICT_JSON_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace castor {

struct JsonLimits {
  int max_depth = 16;
  // Limits objects, arrays and scalars together, and so the memory of the
  // result, to some 100 bytes each.
  int64_t max_values = 10'000'000;
  // True if // and /* */ comments are skipped, false if they are errors as in
  // JSON.
  bool allow_comments = false;
};

// Parses `text`. InvalidArgument has the error and its byte; the caller adds
// the source. Throws std::bad_alloc if there is no memory for the values, since
// that is no error of the text (base/enough_memory.h makes it a status).
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text,
                                               const JsonLimits& limits = {});

// InvalidArgument: the text has a NUL byte, and where.
absl::Status CheckNoNul(absl::string_view text);

// Returns a name from a file for an error message: in double quotes, with bytes
// that could disturb a terminal escaped, and cut if it is very long.
std::string QuotedForMessage(absl::string_view name);

}  // namespace castor

#endif  // CASTOR_BASE_STRICT_JSON_H_
