#include "models/opt/opt_family.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/opt/opt.h"
#include "models/opt/opt_config.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

const OptConfig& ConfigOf(const Architecture& architecture) {
  const auto* config = dynamic_cast<const OptConfig*>(&architecture);
  CASTOR_CHECK(config != nullptr);
  return *config;
}

}  // namespace

std::shared_ptr<const Architecture> OptFamily::Read(JsonReader& reader) const {
  auto config = std::make_shared<OptConfig>();
  config->Read(reader);
  return config;
}

absl::Span<const absl::string_view> OptFamily::pretrained_keys() const {
  return OptConfig::keys_but_dropouts();
}

void OptFamily::ReadOverrides(JsonReader& reader,
                              OrderedJson* overrides) const {
  OptConfig::ReadDropouts(reader, overrides);
}

std::shared_ptr<const Architecture> OptFamily::ReadHfConfig(
    JsonReader& reader) const {
  double layerdrop = 0;
  reader.Double("layerdrop", &layerdrop);
  if (layerdrop != 0) {
    reader.Fail("layerdrop", absl::StrCat(layerdrop,
                                          " is not supported: every layer "
                                          "runs in every step"));
  }
  bool affine = true;
  reader.Bool("layer_norm_elementwise_affine", &affine);
  if (!affine) {
    reader.Fail("layer_norm_elementwise_affine",
                "false is not supported: norms have a gain and a shift");
  }
  return Read(reader);
}

Json OptFamily::HfConfig(const Architecture& architecture) const {
  // Json sorts the keys, as save_pretrained does.
  Json json = ConfigOf(architecture).ToJson();
  json["architectures"] = {"OPTForCausalLM"};
  // Castor knows no special tokens; transformers' defaults are OPT's own, which
  // a smaller vocabulary does not have.
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["pad_token_id"] = nullptr;
  json["dtype"] = "float32";
  json["torch_dtype"] = "float32";  // transformers below 4.56
  json["model_type"] = name();
  return json;
}

HfNames OptFamily::hf_names() const {
  return {.optional_prefix = "model.",
          .embedding = "model.decoder.embed_tokens.weight"};
}

std::unique_ptr<Model> OptFamily::Make(const Architecture& architecture) const {
  return std::make_unique<Opt>(ConfigOf(architecture));
}

}  // namespace castor::models
