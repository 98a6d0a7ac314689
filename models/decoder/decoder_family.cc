#include "models/decoder/decoder_family.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/strict_json.h"
#include "models/decoder/decoder.h"

namespace castor::models {
namespace {

// What a config.json can ask of any model in transformers and Castor's decoder
// does not do.
struct Unsupported {
  absl::string_view key;
  bool neutral;
};
constexpr Unsupported kUnsupported[] = {
    {"is_causal", true},
    {"add_cross_attention", false},
    {"is_encoder_decoder", false},
};

// The shared keys that a directory's config.json decides.
constexpr absl::string_view kSharedKeys[] = {
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "initializer_range",
    "max_position_embeddings",
    "rms_norm_eps",
    "tie_word_embeddings",
};

const DecoderConfig& ConfigOf(const Architecture& architecture) {
  const auto* config = dynamic_cast<const DecoderConfig*>(&architecture);
  CASTOR_CHECK(config != nullptr);
  return *config;
}

}  // namespace

DecoderFamily::DecoderFamily(absl::string_view name, absl::string_view hf_class,
                             NewConfig new_config,
                             std::vector<absl::string_view> own_keys)
    : name_(name),
      hf_class_(hf_class),
      new_config_(new_config),
      keys_(std::move(own_keys)) {
  keys_.insert(keys_.end(), std::begin(kSharedKeys), std::end(kSharedKeys));
  keys_.insert(keys_.end(), Rope::keys().begin(), Rope::keys().end());
}

std::shared_ptr<const Architecture> DecoderFamily::Read(
    JsonReader& reader) const {
  std::shared_ptr<DecoderConfig> config = new_config_();
  config->Read(reader);
  return config;
}

void DecoderFamily::ReadOverrides(JsonReader& reader,
                                  OrderedJson* overrides) const {
  DecoderConfig::ReadDropout(reader, overrides);
}

std::shared_ptr<const Architecture> DecoderFamily::ReadHfConfig(
    JsonReader& reader) const {
  for (const Unsupported& option : kUnsupported) {
    bool value = option.neutral;
    reader.Bool(option.key, &value);
    if (value != option.neutral) {
      reader.Fail(option.key,
                  absl::StrCat(value ? "true" : "false", " is not supported"));
    }
  }
  if (reader.Has("quantization_config")) {
    reader.Fail("quantization_config",
                "quantized weights are not supported: save the model in fp32, "
                "bf16 or fp16");
  }
  return Read(reader);
}

Json DecoderFamily::HfConfig(const Architecture& architecture) const {
  // Json sorts the keys, as save_pretrained does.
  Json json = ConfigOf(architecture).ToJson();
  // transformers below 5 knows these two in the place of rope_parameters.
  Json scaling = json["rope_parameters"];
  json["rope_theta"] = scaling["rope_theta"];
  scaling.erase("rope_theta");
  json["rope_scaling"] =
      scaling["rope_type"] == "default" ? Json() : std::move(scaling);
  json["architectures"] = {hf_class_};
  // Nobody says what the special tokens are of a model that comes from no
  // directory; transformers' defaults are those of the first model of the
  // family.
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  return json;
}

std::vector<std::string> DecoderFamily::Notes(
    const Architecture& architecture) const {
  return ConfigOf(architecture).rope.notes();
}

HfNames DecoderFamily::hf_names() const {
  return {.optional_prefix = "model.",
          .embedding = "model.embed_tokens.weight",
          // The frequencies that old versions saved.
          .without_parameter = {"*.rotary_emb.inv_freq"}};
}

std::unique_ptr<Model> DecoderFamily::Make(
    const Architecture& architecture) const {
  return std::make_unique<Decoder>(ConfigOf(architecture).Sizes());
}

}  // namespace castor::models
