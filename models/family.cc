#include "models/family.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strict_json.h"

namespace castor::models {
namespace {

void RefuseOtherValues(absl::Span<const OnlyValue> only, JsonReader& reader) {
  for (const OnlyValue& each : only) {
    const auto refuse = [&](absl::string_view value) {
      reader.Fail(each.key, absl::StrCat(value, " is not supported", each.why));
    };
    if (const bool* wanted = std::get_if<bool>(&each.value)) {
      bool value = *wanted;
      reader.Bool(each.key, &value);
      if (value != *wanted) refuse(value ? "true" : "false");
    } else {
      const double number = std::get<double>(each.value);
      double value = number;
      reader.Double(each.key, &value);
      if (value != number) refuse(absl::StrCat(value));
    }
  }
}

}  // namespace

Family::Family(FamilyRow row, std::vector<KeyUse> keys) : row_(std::move(row)) {
  for (const KeyUse& key : keys) {
    if (key.role == KeyRole::kDropout || key.role == KeyRole::kHead) {
      overrides_.push_back(key);
    } else {
      pretrained_keys_.push_back(key.name);
    }
  }
}

void Family::ReadOverrides(JsonReader& reader, OrderedJson* overrides) const {
  for (const KeyUse& key : overrides_) {
    if (!reader.Has(key.name)) continue;
    OrderedJson& given = (*overrides)[std::string(key.name)];
    if (key.role == KeyRole::kDropout) {
      double value = 0;
      reader.Double(key.name, &value, kProbability);
      given = value;
    } else if (key.choices.empty()) {
      int64_t value = key.ints.min;
      reader.Int(key.name, &value, key.ints);
      given = value;
    } else {
      std::string value;
      ReadChoice(reader, key.name, key.choices, &value);
      given = value;
    }
  }
}

std::shared_ptr<const Architecture> Family::ReadHfConfig(
    JsonReader& reader) const {
  RefuseOtherValues(row_.only, reader);
  CheckHfConfig(reader);
  return Read(reader);
}

Json Family::HfConfig(const Architecture& architecture) const {
  // Json sorts the keys, as save_pretrained does.
  Json json = architecture.ToJson();
  AddOldNames(&json);
  json["architectures"] = {HfClass(architecture)};
  for (const absl::string_view token : row_.special_tokens) {
    json[std::string(token)] = nullptr;
  }
  return json;
}

}  // namespace castor::models
