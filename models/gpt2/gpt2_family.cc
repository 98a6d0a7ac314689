// GPT-2's keys, and its ways in and out of files.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/activation_names.h"
#include "models/config_keys.h"
#include "models/gpt2/gpt2.h"
#include "models/size_limits.h"

namespace castor::models {
namespace {

constexpr ConfigKey<Gpt2Config> kKeys[] = {
    {"n_layer", &Gpt2Config::n_layer, {.min = 1, .max = kMaxLayers}},
    {"n_head", &Gpt2Config::n_head, {.min = 1, .max = kMaxWidth}},
    {"n_embd", &Gpt2Config::n_embd, {.min = 1, .max = kMaxWidth}},
    {"n_inner",
     &Gpt2Config::n_inner,
     {.min = 0, .max = kMaxInner},
     IfNull::kZero},
    {"n_positions", &Gpt2Config::n_positions, {.min = 1, .max = kMaxPositions}},
    {"vocab_size", &Gpt2Config::vocab_size, {.min = 1, .max = kMaxVocabulary}},
    {"activation_function", &Gpt2Config::activation_function},
    {"resid_pdrop", &Gpt2Config::resid_pdrop, kProbability, KeyRole::kDropout},
    {"embd_pdrop", &Gpt2Config::embd_pdrop, kProbability, KeyRole::kDropout},
    {"attn_pdrop", &Gpt2Config::attn_pdrop, kProbability, KeyRole::kDropout},
    {"layer_norm_epsilon", &Gpt2Config::layer_norm_epsilon, kEpsilon},
    {"initializer_range", &Gpt2Config::initializer_range, kDeviation,
     KeyRole::kInitialValues},
    {"tie_word_embeddings", &Gpt2Config::tie_word_embeddings},
};
constexpr absl::Span<const ConfigKey<Gpt2Config>> kTable = kKeys;

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

class OfGpt2 final : public Family {
 public:
  OfGpt2()
      : Family({.name = "gpt2",
                .hf_class = "GPT2LMHeadModel",
                // reorder_and_upcast_attn is not among them: it orders
                // operations for 16-bit softmax, and Castor's softmax is in
                // fp32 always.
                .only = {{"scale_attn_weights", true},
                         {"scale_attn_by_inverse_layer_idx", false},
                         {"add_cross_attention", false},
                         {"is_encoder_decoder", false}},
                .hf_names = {.optional_prefix = "transformer.",
                             .embedding = "transformer.wte.weight",
                             // The causal masks that old versions saved.
                             .without_parameter = {"*.attn.bias",
                                                   "*.attn.masked_bias"}}},
               UsesOf(kTable)) {}

  std::shared_ptr<const Architecture> Read(JsonReader& reader) const override {
    auto config = std::make_shared<Gpt2Config>();
    config->Read(reader);
    return config;
  }

  std::unique_ptr<Model> Make(const Architecture& architecture) const override {
    const auto* config = dynamic_cast<const Gpt2Config*>(&architecture);
    CASTOR_CHECK(config != nullptr);
    return std::make_unique<Gpt2>(*config);
  }

 private:
  void CheckHfConfig(JsonReader& reader) const override {
    for (const Alias& alias : kAliases) {
      if (reader.Has(alias.alias) && !reader.Has(alias.key)) {
        reader.Fail(alias.alias, absl::StrCat("give it as ", alias.key,
                                              ", GPT-2's own name for it"));
      }
    }
  }
};

}  // namespace

void Gpt2Config::Read(JsonReader& reader) {
  ReadKeys(kTable, reader, this);
  if (ActivationNamed(activation_function) == ops::Activation::kGeluTanh) {
    activation_function = "gelu_new";
  }
  RequireMultiple(reader, "n_embd", n_embd, "n_head", n_head);
}

double Gpt2Config::elements_per_token() const {
  return static_cast<double>(std::max(inner(), 3 * n_embd)) *
         static_cast<double>(n_layer);
}

std::string Gpt2Config::Describe() const {
  return absl::StrCat(n_layer, " layers of ", n_embd);
}

OrderedJson Gpt2Config::ToJson() const {
  OrderedJson json;
  WriteKeys(kTable, *this, &json);
  return json;
}

OrderedJson Gpt2Config::Identity() const {
  OrderedJson json = ToJson();
  json["n_inner"] = inner();
  EraseRates(kTable, &json);
  return json;
}

const Family& Gpt2Family() {
  static const OfGpt2 family;
  return family;
}

}  // namespace castor::models
