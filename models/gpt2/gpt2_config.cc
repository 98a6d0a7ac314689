#include "models/gpt2/gpt2_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/activation_names.h"
#include "models/size_limits.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

constexpr char kActivation[] = "activation_function";
constexpr DoubleRange kProbability = {.min = 0, .max = 1, .max_open = true};

struct Dropout {
  absl::string_view key;
  double Gpt2Config::*member;
};
constexpr Dropout kDropouts[] = {
    {"resid_pdrop", &Gpt2Config::resid_pdrop},
    {"embd_pdrop", &Gpt2Config::embd_pdrop},
    {"attn_pdrop", &Gpt2Config::attn_pdrop},
};

}  // namespace

void Gpt2Config::Read(JsonReader& reader) {
  reader.Int("n_layer", &n_layer, {.min = 1, .max = kMaxLayers});
  reader.Int("n_head", &n_head, {.min = 1, .max = kMaxWidth});
  reader.Int("n_embd", &n_embd, {.min = 1, .max = kMaxWidth});
  reader.Int("n_inner", &n_inner, {.min = 0, .max = kMaxInner});
  reader.Int("n_positions", &n_positions, {.min = 1, .max = kMaxPositions});
  reader.Int("vocab_size", &vocab_size, {.min = 1, .max = kMaxVocabulary});
  ReadActivation(reader, kActivation, &activation_function);
  if (ActivationNamed(activation_function) == ops::Activation::kGeluTanh) {
    activation_function = "gelu_new";
  }
  for (const Dropout& dropout : kDropouts) {
    reader.Double(dropout.key, &(this->*dropout.member), kProbability);
  }
  reader.Double("layer_norm_epsilon", &layer_norm_epsilon,
                {.min = 0, .max = 1, .min_open = true});
  reader.Double("initializer_range", &initializer_range,
                {.min = 0, .max = kMaxDeviation});
  reader.Bool("tie_word_embeddings", &tie_word_embeddings);
  if (n_embd % n_head != 0) {
    reader.Fail("n_embd",
                absl::StrCat(n_embd, " is not a multiple of ",
                             reader.PathOf("n_head"), " (", n_head, ")"),
                {reader.PathOf("n_head")});
  }
}

void Gpt2Config::ReadDropouts(JsonReader& reader, OrderedJson* given) {
  for (const Dropout& dropout : kDropouts) {
    if (!reader.Has(dropout.key)) continue;
    double value = 0;
    reader.Double(dropout.key, &value, kProbability);
    (*given)[std::string(dropout.key)] = value;
  }
}

absl::Span<const absl::string_view> Gpt2Config::keys_but_dropouts() {
  static constexpr absl::string_view kKeys[] = {"n_layer",
                                                "n_head",
                                                "n_embd",
                                                "n_inner",
                                                "n_positions",
                                                "vocab_size",
                                                kActivation,
                                                "layer_norm_epsilon",
                                                "initializer_range",
                                                "tie_word_embeddings"};
  return kKeys;
}

double Gpt2Config::elements_per_token() const {
  return static_cast<double>(std::max(inner(), 3 * n_embd)) *
         static_cast<double>(n_layer);
}

std::string Gpt2Config::Describe() const {
  return absl::StrCat(n_layer, " layers of ", n_embd);
}

OrderedJson Gpt2Config::ToJson() const {
  return {{"n_layer", n_layer},
          {"n_head", n_head},
          {"n_embd", n_embd},
          {"n_inner", n_inner == 0 ? OrderedJson() : OrderedJson(n_inner)},
          {"n_positions", n_positions},
          {"vocab_size", vocab_size},
          {kActivation, activation_function},
          {"resid_pdrop", resid_pdrop},
          {"embd_pdrop", embd_pdrop},
          {"attn_pdrop", attn_pdrop},
          {"layer_norm_epsilon", layer_norm_epsilon},
          {"initializer_range", initializer_range},
          {"tie_word_embeddings", tie_word_embeddings}};
}

OrderedJson Gpt2Config::Identity() const {
  OrderedJson json = ToJson();
  json["n_inner"] = inner();
  for (const Dropout& dropout : kDropouts) {
    json.erase(std::string(dropout.key));
  }
  json.erase("initializer_range");
  return json;
}

}  // namespace castor::models
