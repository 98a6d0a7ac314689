#include "run/config/foreign/foreign_walk.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

bool IsOf(const ForeignKey& key, char system) {
  return absl::StrContains(key.systems, std::string(1, system));
}

bool HasRowsBelow(absl::Span<const ForeignKey> keys, char system,
                  absl::string_view path) {
  return std::any_of(keys.begin(), keys.end(), [&](const ForeignKey& key) {
    if (!IsOf(key, system)) return false;
    const std::vector<absl::string_view> paths = PathsOf(key);
    return std::any_of(paths.begin(), paths.end(),
                       [path](absl::string_view each) {
                         return absl::ConsumePrefix(&each, path) &&
                                absl::StartsWith(each, ".");
                       });
  });
}

void Walk(
    absl::Span<const ForeignKey> keys, char system, const Json& object,
    const std::string& at,
    absl::FunctionRef<void(const std::string&, const Json&, const ForeignKey*)>
        visit) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    const std::string path = JoinPath(at, key);
    if (value.is_object() && HasRowsBelow(keys, system, path)) {
      Walk(keys, system, value, path, visit);
      continue;
    }
    visit(path, value, FindForeignKey(keys, system, path));
  }
}

}  // namespace

const ForeignKey* FindForeignKey(absl::Span<const ForeignKey> keys, char system,
                                 absl::string_view path) {
  for (const ForeignKey& key : keys) {
    if (!IsOf(key, system)) continue;
    const std::vector<absl::string_view> paths = PathsOf(key);
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) return &key;
  }
  return nullptr;
}

void WalkForeign(
    absl::Span<const ForeignKey> keys, char system, const Json& document,
    absl::FunctionRef<void(const std::string& path, const Json& value,
                           const ForeignKey* row)>
        visit) {
  Walk(keys, system, document, "", visit);
}

}  // namespace castor
