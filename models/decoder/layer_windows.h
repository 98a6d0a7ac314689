// Which layers of a Qwen look through a sliding window, as Qwen2Config and
// Qwen3Config of transformers say it: by number from below, or one by one.
#ifndef CASTOR_MODELS_DECODER_LAYER_WINDOWS_H_
#define CASTOR_MODELS_DECODER_LAYER_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"

namespace castor::models {

class LayerWindows {
 public:
  // use_sliding_window, sliding_window, max_window_layers and layer_types.
  static absl::Span<const absl::string_view> keys();

  // Reads them for a model of `layers` layers. Without layer_types, layers from
  // number max_window_layers on (from 0) have the window, if one is used.
  void Read(JsonReader& reader, int64_t layers);
  // The same keys, so that Read makes the same windows of them, and as few
  // different ways to say it as there are different models.
  OrderedJson ToJson() const;

  // For each layer the window, as DecoderSizes has it.
  const std::vector<int64_t>& windows() const { return windows_; }

 private:
  int64_t window_ = 0;  // of those layers that have one; 0: none has
  std::vector<int64_t> windows_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_LAYER_WINDOWS_H_
