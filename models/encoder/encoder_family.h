// The families whose body is the shared encoder: their ways in and out of
// files. A family says how it differs (EncoderKind).
#ifndef CASTOR_MODELS_ENCODER_ENCODER_FAMILY_H_
#define CASTOR_MODELS_ENCODER_ENCODER_FAMILY_H_

#include <memory>
#include <string>

#include "models/encoder/encoder_config.h"
#include "models/family.h"

namespace castor::models {

class EncoderFamily final : public Family {
 public:
  explicit EncoderFamily(EncoderKind kind);

  std::shared_ptr<const Architecture> Read(JsonReader& reader) const override;
  std::unique_ptr<Model> Make(const Architecture& architecture) const override;

 private:
  std::string HfClass(const Architecture& architecture) const override;
  void TranslateHfConfig(Json* document, Json* file) const override;
  void CheckHfConfig(JsonReader& reader) const override;
  void AddOldNames(Json* json) const override;

  const EncoderKind kind_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_ENCODER_ENCODER_FAMILY_H_
