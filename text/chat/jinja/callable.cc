#include "text/chat/jinja/callable.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace castor::text::jinja {

const Callable* Find(absl::Span<const Callable> table, absl::string_view name) {
  const auto found = std::find_if(
      table.begin(), table.end(),
      [name](const Callable& callable) { return callable.name == name; });
  return found == table.end() ? nullptr : &*found;
}

absl::Status Bind(const Arguments& arguments, absl::string_view callee,
                  absl::Span<const absl::string_view> names, int required,
                  absl::Span<Value> out) {
  if (arguments.positional.size() > names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(callee, " takes at most ", names.size(),
                     " arguments, not ", arguments.positional.size()));
  }
  std::vector<bool> is_given(names.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    out[i] = arguments.positional[i];
    is_given[i] = true;
  }
  for (const auto& [name, value] : arguments.named) {
    const size_t at =
        std::find(names.begin(), names.end(), name) - names.begin();
    if (at == names.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(callee, " has no argument '", name, "'"));
    }
    if (is_given[at]) {
      return absl::InvalidArgumentError(
          absl::StrCat(callee, " got several values for '", name, "'"));
    }
    out[at] = value;
    is_given[at] = true;
  }
  for (int i = 0; i < required; ++i) {
    if (!is_given[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat(callee, " misses its argument '", names[i], "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace castor::text::jinja
