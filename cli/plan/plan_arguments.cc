#include "cli/plan/plan_arguments.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace castor::cli {

bool Sets(const std::vector<std::string>& overrides, absl::string_view key) {
  return std::any_of(
      overrides.begin(), overrides.end(), [&](const std::string& override) {
        return absl::StartsWith(override, absl::StrCat(key, "="));
      });
}

}  // namespace castor::cli
