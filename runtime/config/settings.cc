#include "runtime/config/settings.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

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

}  // namespace castor
