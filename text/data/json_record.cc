#include "text/data/json_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_ordered_json.h"

namespace castor {

absl::Status JsonRecord::Parse(absl::string_view line, const JsonLimits& limits,
                               const std::vector<absl::string_view>& known,
                               std::vector<std::string>* unused) {
  CASTOR_ASSIGN_OR_RETURN(json_, ParseStrictOrderedJson(line, limits));
  if (!json_.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected an object, found a value of type ", json_.type_name()));
  }
  std::vector<absl::string_view> absent;
  for (const absl::string_view key : known) {
    if (Find(key) == nullptr) absent.push_back(key);
  }
  std::vector<std::string> names;
  for (const auto& [name, _] : json_.items()) names.push_back(name);
  std::vector<std::string> others = OtherNames(std::move(names), known, keys_);
  const NearKey near = FindNearKey(others, absent);
  if (!near.name.empty()) {
    return absl::InvalidArgumentError(
        UnknownKeyMessage(near.name, near.known, keys_));
  }
  constexpr size_t kMost = 8;
  others.resize(std::min(others.size(), kMost));
  *unused = std::move(others);
  return absl::OkStatus();
}

const OrderedJson* JsonRecord::Find(absl::string_view known) const {
  const std::string name = NameOf(known);
  // The name may have been given to another key.
  if (keys_.KnownOf(name) != known) return nullptr;
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace castor
