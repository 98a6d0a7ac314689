// A family of models for the tests of configurations, since runtime/ knows
// none.
#ifndef CASTOR_RUN_CONFIG_TEST_MODELS_H_
#define CASTOR_RUN_CONFIG_TEST_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "run/config/model_config.h"

namespace castor {

// A number of positions, a dropout that may stand beside a pretrained
// directory, and layers for sizes that cannot be counted.
struct TestArchitecture final : public Architecture {
  int64_t n_positions = 1024;
  int64_t n_layer = 1;
  double dropout = 0.1;

  absl::string_view family() const override { return "test"; }
  int64_t vocabulary() const override { return 256; }
  int64_t positions() const override { return n_positions; }
  absl::string_view positions_key() const override { return "n_positions"; }
  double elements_per_token() const override { return 1e6 * n_layer; }
  std::string Describe() const override { return "a test"; }
  OrderedJson ToJson() const override {
    return {{"n_positions", n_positions},
            {"n_layer", n_layer},
            {"dropout", dropout}};
  }
  OrderedJson Identity() const override { return ToJson(); }
};

class TestModels final : public ModelReader {
 public:
  void Read(JsonReader& reader, ModelConfig* model) const override {
    model->type = "test";
    reader.Has("type");
    reader.String("pretrained", &model->pretrained);
    reader.String("from_config", &model->from_config);
    reader.Strings("frozen", &model->frozen);
    auto sizes = std::make_shared<TestArchitecture>();
    reader.Double("dropout", &sizes->dropout);
    if (!model->directory().empty()) {
      if (reader.Has("dropout")) {
        model->overrides = std::make_shared<const OrderedJson>(
            OrderedJson{{"dropout", sizes->dropout}});
      }
      return;
    }
    reader.Int("n_positions", &sizes->n_positions, {.min = 1});
    reader.Int("n_layer", &sizes->n_layer, {.min = 1});
    model->architecture = std::move(sizes);
  }
};

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_TEST_MODELS_H_
