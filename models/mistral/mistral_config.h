// The sizes and rates of a Mistral, under Hugging Face's own key names
// (transformers, MistralConfig).
#ifndef CASTOR_MODELS_MISTRAL_MISTRAL_CONFIG_H_
#define CASTOR_MODELS_MISTRAL_MISTRAL_CONFIG_H_

#include "models/decoder/decoder_config.h"

namespace castor::models {

struct MistralConfig final : public DecoderConfig {
  MistralConfig();

  // In every layer, position i sees those after i - sliding_window, up to
  // itself. JSON null, 0 here: it sees all up to itself.
  int64_t sliding_window = 4096;

  absl::string_view family() const override { return "mistral"; }

 private:
  void ReadOwn(JsonReader& reader) override;
  OrderedJson OwnToJson() const override;
  void AddTo(DecoderSizes* sizes) const override;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_MISTRAL_MISTRAL_CONFIG_H_
