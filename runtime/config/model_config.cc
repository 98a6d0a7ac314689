#include "runtime/config/model_config.h"

namespace castor {

OrderedJson ModelConfig::ToJson() const {
  OrderedJson json = OrderedJson::object();
  if (!type.empty()) json["type"] = type;
  if (!pretrained.empty()) json["pretrained"] = pretrained;
  if (pretrained.empty() && architecture != nullptr) {
    json.update(architecture->ToJson());
  }
  json.update(overrides);
  json["frozen"] = frozen;
  return json;
}

bool operator==(const ModelConfig& a, const ModelConfig& b) {
  const bool known = a.architecture != nullptr;
  if (known != (b.architecture != nullptr)) return false;
  return a.type == b.type && a.pretrained == b.pretrained &&
         a.overrides == b.overrides && a.frozen == b.frozen &&
         (!known || a.architecture->ToJson() == b.architecture->ToJson());
}

}  // namespace castor
