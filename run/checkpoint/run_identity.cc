#include "run/checkpoint/run_identity.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace castor {

namespace {

// Takes out of a configuration what changes no bit.
void LeaveOut(const Config& config, nlohmann::json* json) {
  for (const char* key :
       {"steps", "num_train_epochs", "eval_strategy", "eval_interval",
        "eval_batches", "early_stopping_patience", "early_stopping_threshold",
        "checkpoint", "memory", "network", "steps_per_print", "on_nonfinite",
        "max_skipped_steps", "on_nonfinite_undo",
        // This follows from the batch sizes and the number of ranks.
        "gradient_accumulation_steps"}) {
    json->erase(key);
  }
  // A GPU sums in another order; how fast a device is changes nothing.
  (*json)["device"] = {{"type", (*json)["device"]["type"]}};
  if (!config.fp16.enabled) (*json)["fp16"] = {{"enabled", false}};
}

nlohmann::json CommonJson(const Config& config) {
  nlohmann::json json = nlohmann::json::parse(ClientConfigToJson(config));
  LeaveOut(config, &json);
  return json;
}

}  // namespace

Settings CommonSettingsOf(const Config& config) {
  return FlattenSettings(CommonJson(config).dump());
}

Settings ClientSettingsOf(const Config& config, int64_t world_size) {
  nlohmann::json json = CommonJson(config);
  json["gradient_accumulation_steps x ranks"] =
      config.gradient_accumulation_steps * world_size;
  return FlattenSettings(json.dump());
}

Settings SettingsOf(const Config& config, absl::string_view data) {
  Config own = config;
  // Values from a directory are only the initial ones; in a checkpoint they are
  // like any others.
  own.model = own.model.WithoutDirectory();
  nlohmann::json json = nlohmann::json::parse(ConfigToJson(own));
  LeaveOut(config, &json);
  // The tokens themselves stand for where they are and how they are read.
  json["data"] = {{"train", data},
                  {"sequence_length", json["data"]["sequence_length"]},
                  {"shuffle", json["data"]["shuffle"]}};
  // Without it, and where it is the same, the order follows from `seed`.
  if (config.data_seed() != config.seed) {
    json["data"]["seed"] = config.data_seed();
  }
  return FlattenSettings(json.dump());
}

std::string DigestOf(const Settings& settings) {
  Sha256 sum;
  sum.Update(SettingsText(settings));
  return sum.HexDigest();
}

std::vector<std::string> Differences(const Settings& then,
                                     const Settings& now) {
  std::vector<std::string> differences;
  for (const SettingDifference& each : DifferingSettings(then, now)) {
    differences.push_back(
        absl::StrCat(each.key, ": ", each.a, " then, ", each.b, " now"));
  }
  return differences;
}

}  // namespace castor
