#include "models/opt/opt_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/activation_names.h"
#include "models/size_limits.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

constexpr DoubleRange kProbability = {.min = 0, .max = 1, .max_open = true};
constexpr char kRemoveFinalNorm[] = "_remove_final_layer_norm";
constexpr char kProjDim[] = "word_embed_proj_dim";

struct Dropout {
  absl::string_view key;
  double OptConfig::*member;
};
constexpr Dropout kDropouts[] = {
    {"dropout", &OptConfig::dropout},
    {"attention_dropout", &OptConfig::attention_dropout},
};

}  // namespace

void OptConfig::Read(JsonReader& reader) {
  reader.Int("vocab_size", &vocab_size, {.min = 1, .max = kMaxVocabulary});
  reader.Int("hidden_size", &hidden_size, {.min = 1, .max = kMaxWidth});
  reader.Int("num_hidden_layers", &num_hidden_layers,
             {.min = 1, .max = kMaxLayers});
  reader.Int("ffn_dim", &ffn_dim, {.min = 1, .max = kMaxInner});
  reader.Int("num_attention_heads", &num_attention_heads,
             {.min = 1, .max = kMaxWidth});
  reader.Int("max_position_embeddings", &max_position_embeddings,
             {.min = 1, .max = kMaxPositions});
  if (reader.IsNull(kProjDim)) word_embed_proj_dim = 0;
  reader.Int(kProjDim, &word_embed_proj_dim, {.min = 1, .max = kMaxWidth});
  reader.Bool("do_layer_norm_before", &do_layer_norm_before);
  reader.Bool(kRemoveFinalNorm, &remove_final_layer_norm);
  reader.Bool("enable_bias", &enable_bias);
  ReadActivation(reader, "activation_function", &activation_function);
  for (const Dropout& dropout : kDropouts) {
    reader.Double(dropout.key, &(this->*dropout.member), kProbability);
  }
  reader.Double("init_std", &init_std, {.min = 0, .max = kMaxDeviation});
  reader.Bool("tie_word_embeddings", &tie_word_embeddings);
  if (word_embed_proj_dim == 0) word_embed_proj_dim = hidden_size;
  if (hidden_size % num_attention_heads != 0) {
    reader.Fail("hidden_size",
                absl::StrCat(hidden_size, " is not a multiple of ",
                             reader.PathOf("num_attention_heads"), " (",
                             num_attention_heads, ")"),
                {reader.PathOf("num_attention_heads")});
  }
}

void OptConfig::ReadDropouts(JsonReader& reader, OrderedJson* given) {
  for (const Dropout& dropout : kDropouts) {
    if (!reader.Has(dropout.key)) continue;
    double value = 0;
    reader.Double(dropout.key, &value, kProbability);
    (*given)[std::string(dropout.key)] = value;
  }
}

absl::Span<const absl::string_view> OptConfig::keys_but_dropouts() {
  static constexpr absl::string_view kKeys[] = {"vocab_size",
                                                "hidden_size",
                                                "num_hidden_layers",
                                                "ffn_dim",
                                                "num_attention_heads",
                                                "max_position_embeddings",
                                                kProjDim,
                                                "do_layer_norm_before",
                                                kRemoveFinalNorm,
                                                "enable_bias",
                                                "activation_function",
                                                "init_std",
                                                "tie_word_embeddings"};
  return kKeys;
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
  return {
      {"vocab_size", vocab_size},
      {"hidden_size", hidden_size},
      {"num_hidden_layers", num_hidden_layers},
      {"ffn_dim", ffn_dim},
      {"num_attention_heads", num_attention_heads},
      {"max_position_embeddings", max_position_embeddings},
      {kProjDim, word_embed_proj_dim == 0 ? hidden_size : word_embed_proj_dim},
      {"do_layer_norm_before", do_layer_norm_before},
      {kRemoveFinalNorm, remove_final_layer_norm},
      {"enable_bias", enable_bias},
      {"activation_function", activation_function},
      {"dropout", dropout},
      {"attention_dropout", attention_dropout},
      {"init_std", init_std},
      {"tie_word_embeddings", tie_word_embeddings}};
}

OrderedJson OptConfig::Identity() const {
  OrderedJson json = ToJson();
  for (const Dropout& dropout : kDropouts) {
    json.erase(std::string(dropout.key));
  }
  json.erase("init_std");
  return json;
}

}  // namespace castor::models
