// The families whose body is the shared decoder: their ways in and out of
// files. A family says how it differs (DecoderKind).
#ifndef CASTOR_MODELS_DECODER_DECODER_FAMILY_H_
#define CASTOR_MODELS_DECODER_DECODER_FAMILY_H_

#include <memory>
#include <string>
#include <vector>

#include "models/decoder/decoder_config.h"
#include "models/family.h"

namespace castor::models {

class DecoderFamily final : public Family {
 public:
  explicit DecoderFamily(DecoderKind kind);

  std::shared_ptr<const Architecture> Read(JsonReader& reader) const override;
  std::vector<std::string> Notes(
      const Architecture& architecture) const override;
  std::unique_ptr<Model> Make(const Architecture& architecture) const override;

 private:
  void CheckHfConfig(JsonReader& reader) const override;
  void AddOldNames(Json* json) const override;

  const DecoderKind kind_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_DECODER_FAMILY_H_
