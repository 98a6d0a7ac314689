#include "models/gpt2/gpt2_family.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/strict_json.h"
#include "models/gpt2/gpt2.h"
#include "models/gpt2/gpt2_config.h"

namespace castor::models {
namespace {

// What GPT2Config can ask for and Castor's GPT-2 does not do.
struct Unsupported {
  absl::string_view key;
  bool neutral;
};
constexpr Unsupported kUnsupported[] = {
    {"scale_attn_weights", true},
    {"scale_attn_by_inverse_layer_idx", false},
    {"add_cross_attention", false},
    {"is_encoder_decoder", false},
};

// Names that transformers takes for GPT-2's own (GPT2Config.attribute_map).
struct Alias {
  absl::string_view alias;
  absl::string_view key;
};
constexpr Alias kAliases[] = {
    {"hidden_size", "n_embd"},
    {"max_position_embeddings", "n_positions"},
    {"num_attention_heads", "n_head"},
    {"num_hidden_layers", "n_layer"},
};

const Gpt2Config& ConfigOf(const Architecture& architecture) {
  const auto* config = dynamic_cast<const Gpt2Config*>(&architecture);
  CASTOR_CHECK(config != nullptr);
  return *config;
}

}  // namespace

std::shared_ptr<const Architecture> Gpt2Family::Read(JsonReader& reader) const {
  auto config = std::make_shared<Gpt2Config>();
  config->Read(reader);
  return config;
}

absl::Span<const absl::string_view> Gpt2Family::pretrained_keys() const {
  return Gpt2Config::keys_but_dropouts();
}

void Gpt2Family::ReadOverrides(JsonReader& reader,
                               OrderedJson* overrides) const {
  Gpt2Config::ReadDropouts(reader, overrides);
}

std::shared_ptr<const Architecture> Gpt2Family::ReadHfConfig(
    JsonReader& reader) const {
  // reorder_and_upcast_attn is not among them: it orders operations for 16-bit
  // softmax, and Castor's softmax is in fp32 always.
  for (const Unsupported& option : kUnsupported) {
    bool value = option.neutral;
    reader.Bool(option.key, &value);
    if (value != option.neutral) {
      reader.Fail(option.key,
                  absl::StrCat(value ? "true" : "false", " is not supported"));
    }
  }
  for (const Alias& alias : kAliases) {
    if (reader.Has(alias.alias) && !reader.Has(alias.key)) {
      reader.Fail(alias.alias, absl::StrCat("give it as ", alias.key,
                                            ", GPT-2's own name for it"));
    }
  }
  return Read(reader);
}

Json Gpt2Family::HfConfig(const Architecture& architecture) const {
  const Gpt2Config& config = ConfigOf(architecture);
  // Json sorts the keys, as save_pretrained does.
  Json json = config.ToJson();
  json["architectures"] = {"GPT2LMHeadModel"};
  // Nobody says what the special tokens are of a model that comes from no
  // directory; transformers' defaults are GPT-2's own, which a smaller
  // vocabulary does not have.
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  return json;
}

HfNames Gpt2Family::hf_names() const {
  return {.optional_prefix = "transformer.",
          .embedding = "transformer.wte.weight",
          // The causal masks that old versions saved.
          .without_parameter = {"*.attn.bias", "*.attn.masked_bias"}};
}

std::unique_ptr<Model> Gpt2Family::Make(
    const Architecture& architecture) const {
  return std::make_unique<Gpt2>(ConfigOf(architecture));
}

}  // namespace castor::models
