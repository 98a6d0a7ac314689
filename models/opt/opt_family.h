// OPT as a row of the table of families.
#ifndef CASTOR_MODELS_OPT_OPT_FAMILY_H_
#define CASTOR_MODELS_OPT_OPT_FAMILY_H_

#include <memory>

#include "models/family.h"

namespace castor::models {

// Hugging Face's files: transformers' OPTConfig and OPTForCausalLM, and the
// names of OPTModel, which lack the "model." in front.
class OptFamily final : public Family {
 public:
  absl::string_view name() const override { return "opt"; }
  std::shared_ptr<const Architecture> Read(JsonReader& reader) const override;
  absl::Span<const absl::string_view> pretrained_keys() const override;
  void ReadOverrides(JsonReader& reader, OrderedJson* overrides) const override;
  std::shared_ptr<const Architecture> ReadHfConfig(
      JsonReader& reader) const override;
  Json HfConfig(const Architecture& architecture) const override;
  HfNames hf_names() const override;
  std::unique_ptr<Model> Make(const Architecture& architecture) const override;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_OPT_OPT_FAMILY_H_
