// OPT's keys, and its ways in and out of files.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/config_keys.h"
#include "models/opt/opt.h"
#include "models/size_limits.h"

namespace castor::models {
namespace {

constexpr char kProjDim[] = "word_embed_proj_dim";

constexpr ConfigKey<OptConfig> kKeys[] = {
    {"vocab_size", &OptConfig::vocab_size, {.min = 1, .max = kMaxVocabulary}},
    {"hidden_size", &OptConfig::hidden_size, {.min = 1, .max = kMaxWidth}},
    {"num_hidden_layers",
     &OptConfig::num_hidden_layers,
     {.min = 1, .max = kMaxLayers}},
    {"ffn_dim", &OptConfig::ffn_dim, {.min = 1, .max = kMaxInner}},
    {"num_attention_heads",
     &OptConfig::num_attention_heads,
     {.min = 1, .max = kMaxWidth}},
    {"max_position_embeddings",
     &OptConfig::max_position_embeddings,
     {.min = 1, .max = kMaxPositions}},
    {kProjDim,
     &OptConfig::word_embed_proj_dim,
     {.min = 1, .max = kMaxWidth},
     IfNull::kZero},
    {"do_layer_norm_before", &OptConfig::do_layer_norm_before},
    {"_remove_final_layer_norm", &OptConfig::remove_final_layer_norm},
    {"enable_bias", &OptConfig::enable_bias},
    {"activation_function", &OptConfig::activation_function},
    {"dropout", &OptConfig::dropout, kProbability, KeyRole::kDropout},
    {"attention_dropout", &OptConfig::attention_dropout, kProbability,
     KeyRole::kDropout},
    {"init_std", &OptConfig::init_std, kDeviation, KeyRole::kInitialValues},
    {"tie_word_embeddings", &OptConfig::tie_word_embeddings},
};
constexpr absl::Span<const ConfigKey<OptConfig>> kTable = kKeys;

class OfOpt final : public Family {
 public:
  OfOpt()
      : Family({.name = "opt",
                .hf_class = "OPTForCausalLM",
                .only = {{"layerdrop", 0.0, ": every layer runs in every step"},
                         {"layer_norm_elementwise_affine", true,
                          ": norms have a gain and a shift"}},
                .hf_names = {.optional_prefix = "model.",
                             .embedding = "model.decoder.embed_tokens.weight"},
                .special_tokens = {"bos_token_id", "eos_token_id",
                                   "pad_token_id"}},
               UsesOf(kTable)) {}

  std::shared_ptr<const Architecture> Read(JsonReader& reader) const override {
    auto config = std::make_shared<OptConfig>();
    config->Read(reader);
    return config;
  }

  std::unique_ptr<Model> Make(const Architecture& architecture) const override {
    const auto* config = dynamic_cast<const OptConfig*>(&architecture);
    CASTOR_CHECK(config != nullptr);
    return std::make_unique<Opt>(*config);
  }
};

}  // namespace

void OptConfig::Read(JsonReader& reader) {
  ReadKeys(kTable, reader, this);
  if (word_embed_proj_dim == 0) word_embed_proj_dim = hidden_size;
  RequireMultiple(reader, "hidden_size", hidden_size, "num_attention_heads",
                  num_attention_heads);
}

double OptConfig::elements_per_token() const {
  return static_cast<double>(
             std::max({ffn_dim, hidden_size, word_embed_proj_dim})) *
         static_cast<double>(num_hidden_layers);
}

std::string OptConfig::Describe() const {
  return absl::StrCat(num_hidden_layers, " layers of ", hidden_size);
}

OrderedJson OptConfig::ToJson() const {
  OrderedJson json;
  WriteKeys(kTable, *this, &json);
  return json;
}

OrderedJson OptConfig::Identity() const {
  OrderedJson json = ToJson();
  if (word_embed_proj_dim == 0) json[kProjDim] = hidden_size;
  EraseRates(kTable, &json);
  return json;
}

const Family& OptFamily() {
  static const OfOpt family;
  return family;
}

}  // namespace castor::models
