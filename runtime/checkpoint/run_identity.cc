#include "runtime/checkpoint/run_identity.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace castor {
namespace {

using Json = nlohmann::json;

// The leaves of an object; a list is one.
void Flatten(const std::string& path, const Json& json, RunSettings* settings) {
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

RunSettings SettingsOf(const Config& config, absl::string_view data) {
  Config own = config;
  // Values from elsewhere are its initial ones only, and in a checkpoint no
  // more than any others.
  own.model = own.model.WithoutDirectory();
  Json json = Json::parse(ConfigToJson(own));
  for (const char* key :
       {"steps", "eval_interval", "eval_batches", "checkpoint", "memory",
        "network", "steps_per_print",
        // follows from the batch sizes and the number of ranks
        "gradient_accumulation_steps"}) {
    json.erase(key);
  }
  // A GPU sums in another order; how fast a device is changes nothing.
  json["device"] = {{"type", json["device"]["type"]}};
  // The tokens themselves stand for where they are and how they are read.
  json["data"] = {{"train", data},
                  {"sequence_length", json["data"]["sequence_length"]},
                  {"shuffle", json["data"]["shuffle"]}};
  if (!config.fp16.enabled) json["fp16"] = {{"enabled", false}};
  RunSettings settings;
  Flatten("", json, &settings);
  return settings;
}

std::string DigestOf(const RunSettings& settings) {
  Sha256 sum;
  for (const auto& [key, value] : settings) {
    // Neither holds a zero byte: JSON escapes it.
    sum.Update(absl::string_view(key.c_str(), key.size() + 1));
    sum.Update(absl::string_view(value.c_str(), value.size() + 1));
  }
  return sum.HexDigest();
}

std::vector<std::string> Differences(const RunSettings& then,
                                     const RunSettings& now) {
  RunSettings all = then;
  all.insert(now.begin(), now.end());
  std::vector<std::string> differences;
  for (const auto& entry : all) {
    const std::string& key = entry.first;
    const auto value = [&](const RunSettings& settings) {
      const auto found = settings.find(key);
      return found == settings.end() ? std::string("absent") : found->second;
    };
    if (value(then) == value(now)) continue;
    differences.push_back(
        absl::StrCat(key, ": ", value(then), " then, ", value(now), " now"));
  }
  return differences;
}

}  // namespace castor
