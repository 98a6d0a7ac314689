#include "text/tokenizer/pattern.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor::text {

absl::StatusOr<std::unique_ptr<const Regex>> ReadPattern(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const JsonPart pattern, part.Object("pattern"));
  CASTOR_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                          pattern.OptionalString("String"));
  if (text.has_value()) return Regex::MakeLiteral(*text);
  CASTOR_ASSIGN_OR_RETURN(const std::optional<std::string> regex,
                          pattern.OptionalString("Regex"));
  if (!regex.has_value()) {
    return part.Error("pattern",
                      "expected {\"String\": ...} or {\"Regex\": ...}");
  }
  absl::StatusOr<std::unique_ptr<const Regex>> made = Regex::Make(*regex);
  if (!made.ok()) {
    return pattern.Error("Regex", absl::StrCat(QuotedForMessage(*regex), ": ",
                                               made.status().message()));
  }
  return made;
}

}  // namespace castor::text
