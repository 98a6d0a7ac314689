// What the families have in common whose body is the shared decoder: their
// ways in and out of files. A family adds its name and its configuration.
#ifndef CASTOR_MODELS_DECODER_DECODER_FAMILY_H_
#define CASTOR_MODELS_DECODER_DECODER_FAMILY_H_

#include <memory>
#include <string>
#include <vector>

#include "models/decoder/decoder_config.h"
#include "models/family.h"

namespace castor::models {

class DecoderFamily : public Family {
 public:
  absl::string_view name() const final { return name_; }
  std::shared_ptr<const Architecture> Read(JsonReader& reader) const final;
  absl::Span<const absl::string_view> pretrained_keys() const final {
    return keys_;
  }
  void ReadOverrides(JsonReader& reader, OrderedJson* overrides) const final;
  std::shared_ptr<const Architecture> ReadHfConfig(
      JsonReader& reader) const final;
  Json HfConfig(const Architecture& architecture) const final;
  std::vector<std::string> Notes(const Architecture& architecture) const final;
  HfNames hf_names() const final;
  std::unique_ptr<Model> Make(const Architecture& architecture) const final;

 protected:
  using NewConfig = std::shared_ptr<DecoderConfig> (*)();
  // `hf_class`: transformers' class of the model with its head. `own_keys`:
  // those that the family's configuration has besides the shared ones.
  DecoderFamily(absl::string_view name, absl::string_view hf_class,
                NewConfig new_config, std::vector<absl::string_view> own_keys);

 private:
  const absl::string_view name_;
  const absl::string_view hf_class_;
  const NewConfig new_config_;
  std::vector<absl::string_view> keys_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_DECODER_FAMILY_H_
