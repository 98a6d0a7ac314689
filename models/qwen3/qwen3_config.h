// The sizes and rates of a Qwen 3 without experts, under Hugging Face's own key
// names (transformers, Qwen3Config). Each head's query and key are normed.
#ifndef CASTOR_MODELS_QWEN3_QWEN3_CONFIG_H_
#define CASTOR_MODELS_QWEN3_QWEN3_CONFIG_H_

#include "models/decoder/decoder_config.h"
#include "models/decoder/layer_windows.h"

namespace castor::models {

struct Qwen3Config final : public DecoderConfig {
  Qwen3Config();

  bool attention_bias = false;  // of the maps to and from heads
  LayerWindows windows;

  absl::string_view family() const override { return "qwen3"; }

 private:
  void ReadOwn(JsonReader& reader) override;
  OrderedJson OwnToJson() const override;
  void AddTo(DecoderSizes* sizes) const override;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_QWEN3_QWEN3_CONFIG_H_
