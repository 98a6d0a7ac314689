#include "models/decoder/layer_windows.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/strict_json.h"
#include "models/config_keys.h"
#include "models/size_limits.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

constexpr char kSliding[] = "sliding_attention";
constexpr char kFull[] = "full_attention";

}  // namespace

absl::Span<const absl::string_view> LayerWindows::keys() {
  static constexpr absl::string_view kKeys[] = {
      "use_sliding_window", "sliding_window", "max_window_layers",
      "layer_types"};
  return kKeys;
}

void LayerWindows::Read(JsonReader& reader, int64_t layers) {
  bool used = false;
  int64_t window = 4096;
  int64_t first = 28;
  std::vector<std::string> types;
  reader.Bool("use_sliding_window", &used);
  IntOrNull(reader, "sliding_window", &window,
            {.min = 1, .max = kMaxPositions});
  reader.Int("max_window_layers", &first, {.min = 0});
  const bool one_by_one = reader.Has("layer_types");
  reader.Strings("layer_types", &types);
  if (!used) window = 0;
  windows_.assign(layers, 0);
  if (one_by_one && static_cast<int64_t>(types.size()) != layers) {
    reader.Fail("layer_types",
                absl::StrCat("has ", types.size(), " entries for ",
                             reader.PathOf("num_hidden_layers"), " ", layers),
                {reader.PathOf("num_hidden_layers")});
    return;
  }
  for (int64_t i = 0; i < layers; ++i) {
    bool slides = i >= first;
    if (one_by_one) {
      slides = types[i] == kSliding;
      if (!slides && types[i] != kFull) {
        reader.Fail("layer_types",
                    absl::StrCat(QuotedForMessage(types[i]),
                                 " is not supported; only \"", kSliding,
                                 "\" and \"", kFull, "\" are"));
        return;
      }
      if (slides && window == 0) {
        reader.Fail(
            "layer_types",
            absl::StrCat("has \"", kSliding, "\", but ",
                         reader.PathOf("use_sliding_window"), " and ",
                         reader.PathOf("sliding_window"), " give no window"),
            {reader.PathOf("use_sliding_window"),
             reader.PathOf("sliding_window")});
        return;
      }
    }
    windows_[i] = slides ? window : 0;
  }
  window_ = *std::max_element(windows_.begin(), windows_.end());
}

OrderedJson LayerWindows::ToJson() const {
  std::vector<std::string> types;
  for (const int64_t window : windows_) {
    types.push_back(window > 0 ? kSliding : kFull);
  }
  return {
      {"use_sliding_window", window_ > 0},
      {"sliding_window", window_ > 0 ? OrderedJson(window_) : OrderedJson()},
      {"layer_types", types}};
}

}  // namespace castor::models
