#include "models/decoder/decoder_family.h"

#include <utility>

#include "base/check.h"
#include "models/decoder/decoder.h"

namespace castor::models {
namespace {

FamilyRow RowOf(const DecoderKind& kind) {
  return {.name = kind.name,
          .hf_class = kind.hf_class,
          .only = {{"is_causal", true},
                   {"add_cross_attention", false},
                   {"is_encoder_decoder", false}},
          // Files of the model without its head lack the "model." in front.
          .hf_names = {.optional_prefix = "model.",
                       .embedding = "model.embed_tokens.weight",
                       // The frequencies that old versions saved.
                       .without_parameter = {"*.rotary_emb.inv_freq"}}};
}

std::vector<KeyUse> KeysOf(const DecoderKind& kind) {
  std::vector<KeyUse> keys = UsesOf(DecoderConfig::shared_keys());
  for (const KeyUse& key : kind.own_keys) keys.push_back(key);
  for (const absl::string_view name : Rope::keys()) keys.push_back({name});
  if (kind.has_layer_windows) {
    for (const absl::string_view name : LayerWindows::keys()) {
      keys.push_back({name});
    }
  }
  return keys;
}

const DecoderConfig& ConfigOf(const Architecture& architecture) {
  const auto* config = dynamic_cast<const DecoderConfig*>(&architecture);
  CASTOR_CHECK(config != nullptr);
  return *config;
}

}  // namespace

DecoderFamily::DecoderFamily(DecoderKind kind)
    : Family(RowOf(kind), KeysOf(kind)), kind_(std::move(kind)) {}

std::shared_ptr<const Architecture> DecoderFamily::Read(
    JsonReader& reader) const {
  auto config = std::make_shared<DecoderConfig>(&kind_);
  config->Read(reader);
  return config;
}

void DecoderFamily::CheckHfConfig(JsonReader& reader) const {
  if (reader.Has("quantization_config")) {
    reader.Fail("quantization_config",
                "quantized weights are not supported: save the model in fp32, "
                "bf16 or fp16");
  }
}

// transformers below 5 knows these two in the place of rope_parameters.
void DecoderFamily::AddOldNames(Json* json) const {
  Json scaling = (*json)["rope_parameters"];
  (*json)["rope_theta"] = scaling["rope_theta"];
  scaling.erase("rope_theta");
  (*json)["rope_scaling"] =
      scaling["rope_type"] == "default" ? Json() : std::move(scaling);
}

std::vector<std::string> DecoderFamily::Notes(
    const Architecture& architecture) const {
  return ConfigOf(architecture).rope.notes();
}

std::unique_ptr<Model> DecoderFamily::Make(
    const Architecture& architecture) const {
  return std::make_unique<Decoder>(ConfigOf(architecture).Sizes());
}

}  // namespace castor::models
