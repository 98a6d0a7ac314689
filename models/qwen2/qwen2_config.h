// The sizes and rates of a Qwen 2 or 2.5, under Hugging Face's own key names
// (transformers, Qwen2Config). The maps to queries, keys and values have
// biases, the one from heads has none.
#ifndef CASTOR_MODELS_QWEN2_QWEN2_CONFIG_H_
#define CASTOR_MODELS_QWEN2_QWEN2_CONFIG_H_

#include "models/decoder/decoder_config.h"
#include "models/decoder/layer_windows.h"

namespace castor::models {

struct Qwen2Config final : public DecoderConfig {
  Qwen2Config();

  LayerWindows windows;

  absl::string_view family() const override { return "qwen2"; }

 private:
  void ReadOwn(JsonReader& reader) override;
  OrderedJson OwnToJson() const override;
  void AddTo(DecoderSizes* sizes) const override;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_QWEN2_QWEN2_CONFIG_H_
