#include "base/settings.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error_list.h"

namespace castor {
namespace {

using Json = nlohmann::json;

void Flatten(const std::string& path, const Json& json, Settings* settings) {
  for (const auto& item : json.items()) {
    const std::string key =
        path.empty() ? item.key() : absl::StrCat(path, ".", item.key());
    if (item.value().is_object()) {
      Flatten(key, item.value(), settings);
    } else {
      (*settings)[key] = item.value().dump();
    }
  }
}

}  // namespace

Settings FlattenSettings(absl::string_view json) {
  Settings settings;
  Flatten("", Json::parse(json), &settings);
  return settings;
}

std::vector<SettingDifference> DifferingSettings(const Settings& a,
                                                 const Settings& b) {
  Settings all = a;
  all.insert(b.begin(), b.end());
  std::vector<SettingDifference> differences;
  for (const auto& entry : all) {
    const std::string& key = entry.first;
    const auto value = [&](const Settings& settings) {
      const auto found = settings.find(key);
      return found == settings.end() ? std::string("absent") : found->second;
    };
    if (value(a) == value(b)) continue;
    differences.push_back({.key = key, .a = value(a), .b = value(b)});
  }
  return differences;
}

absl::Status CheckSameSettings(const Settings& mine, const Settings& first) {
  constexpr size_t kMost = 20;  // that anybody reads
  std::vector<std::string> errors;
  for (const SettingDifference& each : DifferingSettings(mine, first)) {
    if (errors.size() == kMost) break;
    errors.push_back(absl::StrCat(each.key, " is ", each.a, ", on rank 0 ",
                                  each.b, ": give all ranks the same"));
  }
  if (errors.empty()) return absl::OkStatus();
  return ErrorList(absl::StatusCode::kInvalidArgument, errors);
}

// Neither keys nor values hold a zero byte: JSON escapes it.
std::string SettingsText(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) {
    for (const std::string* part : {&key, &value}) {
      text.append(part->c_str(), part->size() + 1);
    }
  }
  return text;
}

Settings ReadSettingsText(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '\0');
  Settings settings;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    settings[std::string(parts[i])] = std::string(parts[i + 1]);
  }
  return settings;
}

}  // namespace castor
