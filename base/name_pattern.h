// Patterns of parameter names, as `frozen` and `no_decay` hold them: '*' stands
// for any run of characters (dots included), '?' for any one; all else for
// itself. A pattern must match the whole name.
#ifndef CASTOR_BASE_NAME_PATTERN_H_
#define CASTOR_BASE_NAME_PATTERN_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace castor {

// Returns true if the pattern matches. Cost: at most pattern.size() *
// name.size().
constexpr bool MatchesPattern(absl::string_view pattern,
                              absl::string_view name) {
  size_t p = 0, n = 0;
  // Where to go on if the pattern after the last '*' does not fit.
  size_t star = absl::string_view::npos, retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

template <typename Patterns>
constexpr bool MatchesAnyPattern(const Patterns& patterns,
                                 absl::string_view name) {
  for (const auto& pattern : patterns) {
    if (MatchesPattern(pattern, name)) return true;
  }
  return false;
}

}  // namespace castor

#endif  // CASTOR_BASE_NAME_PATTERN_H_
