#include "base/nearest_name.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_report.h"
#include "base/strict_json.h"

namespace castor {

std::string PlainName(absl::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

std::string UnknownName(absl::string_view what, absl::string_view name,
                        const std::vector<std::string>& names) {
  const std::string plain = PlainName(name);
  const auto distance = [&](const std::string& known) -> int64_t {
    const std::string other = PlainName(known);
    return absl::StartsWith(other, plain) ? 0 : EditDistance(plain, other);
  };
  const auto nearest =
      std::min_element(names.begin(), names.end(),
                       [&](const std::string& a, const std::string& b) {
                         return distance(a) < distance(b);
                       });
  return absl::StrCat("there is no ", what, " ", QuotedForMessage(name),
                      "; the nearest name is \"", *nearest, "\", of ",
                      absl::StrJoin(names, ", "));
}

}  // namespace castor
