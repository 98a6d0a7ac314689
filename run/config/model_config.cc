#include "run/config/model_config.h"

#include "nlohmann/json.hpp"

namespace castor {

const std::string& ModelConfig::directory() const {
  return pretrained.empty() ? from_config : pretrained;
}

absl::string_view ModelConfig::directory_key() const {
  return pretrained.empty() ? "from_config" : "pretrained";
}

const OrderedJson& ModelConfig::GetOverrides() const {
  static const OrderedJson& none = *new OrderedJson(OrderedJson::object());
  return overrides != nullptr ? *overrides : none;
}

OrderedJson ModelConfig::ToJson() const {
  OrderedJson json = OrderedJson::object();
  if (!type.empty()) json["type"] = type;
  if (!directory().empty()) {
    json[std::string(directory_key())] = directory();
  } else if (architecture != nullptr) {
    json.update(architecture->ToJson());
  }
  json.update(GetOverrides());
  json["frozen"] = frozen;
  return json;
}

ModelConfig ModelConfig::WithoutDirectory() const {
  ModelConfig model = *this;
  model.pretrained.clear();
  model.from_config.clear();
  model.overrides = nullptr;
  return model;
}

bool operator==(const ModelConfig& a, const ModelConfig& b) {
  const bool known = a.architecture != nullptr;
  if (known != (b.architecture != nullptr)) return false;
  return a.type == b.type && a.pretrained == b.pretrained &&
         a.from_config == b.from_config &&
         a.GetOverrides() == b.GetOverrides() && a.frozen == b.frozen &&
         (!known || a.architecture->ToJson() == b.architecture->ToJson());
}

}  // namespace castor
