#include "runtime/config/model_config.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

// Bounds that keep every product of sizes within int64_t: they are some hundred
// times what has been trained.
constexpr int64_t kMaxLayers = 1 << 14;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxInner = 1 << 23;
constexpr int64_t kMaxPositions = 1 << 24;
constexpr int64_t kMaxVocabulary = 1 << 28;

constexpr DoubleRange kProbability = {.min = 0, .max = 1, .max_open = true};

struct Dropout {
  absl::string_view key;
  double ModelConfig::*member;
};
constexpr Dropout kDropouts[] = {
    {"resid_pdrop", &ModelConfig::resid_pdrop},
    {"embd_pdrop", &ModelConfig::embd_pdrop},
    {"attn_pdrop", &ModelConfig::attn_pdrop},
};

void ReadDropouts(JsonReader& reader, ModelConfig* model) {
  for (const Dropout& dropout : kDropouts) {
    reader.Double(dropout.key, &(model->*dropout.member), kProbability);
  }
}

}  // namespace

void ReadGpt2Keys(JsonReader& reader, ModelConfig* model) {
  reader.Int("n_layer", &model->n_layer, {.min = 1, .max = kMaxLayers});
  reader.Int("n_head", &model->n_head, {.min = 1, .max = kMaxWidth});
  reader.Int("n_embd", &model->n_embd, {.min = 1, .max = kMaxWidth});
  reader.Int("n_inner", &model->n_inner, {.min = 0, .max = kMaxInner});
  reader.Int("n_positions", &model->n_positions,
             {.min = 1, .max = kMaxPositions});
  reader.Int("vocab_size", &model->vocab_size,
             {.min = 1, .max = kMaxVocabulary});
  ReadDropouts(reader, model);
  reader.Double("layer_norm_epsilon", &model->layer_norm_epsilon,
                {.min = 0, .max = 1, .min_open = true});
  reader.Double("initializer_range", &model->initializer_range, {.min = 0});
  reader.Bool("tie_word_embeddings", &model->tie_word_embeddings);
  if (model->n_embd % model->n_head != 0) {
    reader.Fail("n_embd", absl::StrCat(model->n_embd, " is not a multiple of ",
                                       reader.PathOf("n_head"), " (",
                                       model->n_head, ")"));
  }
}

void ReadModelConfig(JsonReader& reader, ModelConfig* model) {
  constexpr absl::string_view kTypes[] = {"gpt2"};
  int type = 0;
  reader.Choice("type", kTypes, &type);
  model->type = std::string(kTypes[type]);
  reader.String("pretrained", &model->pretrained);
  reader.Strings("frozen", &model->frozen);
  if (model->pretrained.empty()) {
    if (reader.Has("pretrained")) {
      reader.FailExpected("pretrained", "the name of a directory");
    }
    ReadGpt2Keys(reader, model);
    return;
  }
  for (const absl::string_view key :
       {"n_layer", "n_head", "n_embd", "n_inner", "n_positions", "vocab_size",
        "layer_norm_epsilon", "initializer_range", "tie_word_embeddings"}) {
    if (reader.Has(key)) {
      reader.Fail(
          key, absl::StrCat("cannot stand beside ", reader.PathOf("pretrained"),
                            ", whose config.json says it"));
    }
  }
  ReadDropouts(reader, model);
  for (const Dropout& dropout : kDropouts) {
    if (reader.Has(dropout.key)) {
      model->dropout_overrides.emplace_back(dropout.key);
    }
  }
}

ModelConfig MergePretrained(const ModelConfig& given, ModelConfig loaded) {
  loaded.type = given.type;
  loaded.pretrained = given.pretrained;
  loaded.frozen = given.frozen;
  loaded.dropout_overrides = given.dropout_overrides;
  for (const Dropout& dropout : kDropouts) {
    for (const std::string& key : given.dropout_overrides) {
      if (key == dropout.key) {
        loaded.*dropout.member = given.*dropout.member;
      }
    }
  }
  return loaded;
}

}  // namespace castor
