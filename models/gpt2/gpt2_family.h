// GPT-2 as a row of the table of families.
#ifndef CASTOR_MODELS_GPT2_GPT2_FAMILY_H_
#define CASTOR_MODELS_GPT2_GPT2_FAMILY_H_

#include <memory>

#include "models/family.h"

namespace castor::models {

// Hugging Face's files: transformers' GPT2Config and GPT2LMHeadModel, and the
// names of GPT2Model, OpenAI's original among them, which lack the
// "transformer." in front.
class Gpt2Family final : public Family {
 public:
  absl::string_view name() const override { return "gpt2"; }
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

#endif  // CASTOR_MODELS_GPT2_GPT2_FAMILY_H_
