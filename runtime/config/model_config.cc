#include "runtime/config/model_config.h"

#include "nlohmann/json.hpp"

namespace castor {

const OrderedJson& ModelConfig::GetOverrides() const {
  static const OrderedJson& none = *new OrderedJson(OrderedJson::object());
  return overrides != nullptr ? *overrides : none;
}

OrderedJson ModelConfig::ToJson() const {
  OrderedJson json = OrderedJson::object();
  if (!type.empty()) json["type"] = type;
  if (!pretrained.empty()) json["pretrained"] = pretrained;
  if (pretrained.empty() && architecture != nullptr) {
    json.update(architecture->ToJson());
  }
  json.update(GetOverrides());
  json["frozen"] = frozen;
  return json;
}

bool operator==(const ModelConfig& a, const ModelConfig& b) {
  const bool known = a.architecture != nullptr;
  if (known != (b.architecture != nullptr)) return false;
  return a.type == b.type && a.pretrained == b.pretrained &&
         a.GetOverrides() == b.GetOverrides() && a.frozen == b.frozen &&
         (!known || a.architecture->ToJson() == b.architecture->ToJson());
}

}  // namespace castor
