#include "models/decoder/decoder_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/activation_names.h"
#include "models/size_limits.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

constexpr DoubleRange kProbability = {.min = 0, .max = 1, .max_open = true};
constexpr char kDropout[] = "attention_dropout";

}  // namespace

void IntOrNull(JsonReader& reader, absl::string_view key, int64_t* out,
               int64_t max) {
  if (reader.IsNull(key)) *out = 0;
  reader.Int(key, out, {.min = 1, .max = max});
}

void DecoderConfig::Read(JsonReader& reader) {
  reader.Int("vocab_size", &vocab_size, {.min = 1, .max = kMaxVocabulary});
  reader.Int("hidden_size", &hidden_size, {.min = 1, .max = kMaxWidth});
  reader.Int("intermediate_size", &intermediate_size,
             {.min = 1, .max = kMaxInner});
  reader.Int("num_hidden_layers", &num_hidden_layers,
             {.min = 1, .max = kMaxLayers});
  reader.Int("num_attention_heads", &num_attention_heads,
             {.min = 1, .max = kMaxWidth});
  IntOrNull(reader, "num_key_value_heads", &num_key_value_heads, kMaxWidth);
  IntOrNull(reader, "head_dim", &head_dim, kMaxWidth);
  ReadActivation(reader, "hidden_act", &hidden_act);
  reader.Int("max_position_embeddings", &max_position_embeddings,
             {.min = 1, .max = kMaxPositions});
  reader.Double("initializer_range", &initializer_range,
                {.min = 0, .max = kMaxDeviation});
  reader.Double("rms_norm_eps", &rms_norm_eps,
                {.min = 0, .max = 1, .min_open = true});
  reader.Bool("tie_word_embeddings", &tie_word_embeddings);
  reader.Double(kDropout, &attention_dropout, kProbability);

  if (num_key_value_heads == 0) num_key_value_heads = num_attention_heads;
  if (num_attention_heads % num_key_value_heads != 0) {
    reader.Fail("num_attention_heads",
                absl::StrCat(num_attention_heads, " is not a multiple of ",
                             reader.PathOf("num_key_value_heads"), " (",
                             num_key_value_heads, ")"),
                {reader.PathOf("num_key_value_heads")});
  }
  const bool derived = head_dim == 0;
  if (derived) head_dim = hidden_size / num_attention_heads;
  if (head_dim < 2 || head_dim % 2 != 0) {
    reader.Fail(
        derived ? "hidden_size" : "head_dim",
        derived ? absl::StrCat(hidden_size, " makes heads of ", head_dim,
                               " channels with ",
                               reader.PathOf("num_attention_heads"), " ",
                               num_attention_heads,
                               ", and rotary positions turn pairs of them: a "
                               "head must have an even number")
                : absl::StrCat(head_dim,
                               " is not even, and rotary positions turn pairs "
                               "of channels"),
        {reader.PathOf("num_attention_heads")});
    head_dim = 64;  // with which any rotation can be read
  }
  rope.Read(reader,
            {.head_size = head_dim, .positions = max_position_embeddings});
  ReadOwn(reader);
}

void DecoderConfig::ReadDropout(JsonReader& reader, OrderedJson* given) {
  if (!reader.Has(kDropout)) return;
  double value = 0;
  reader.Double(kDropout, &value, kProbability);
  (*given)[kDropout] = value;
}

DecoderSizes DecoderConfig::Sizes() const {
  DecoderSizes sizes;
  sizes.vocabulary = vocab_size;
  sizes.channels = hidden_size;
  sizes.inner = intermediate_size;
  sizes.heads = num_attention_heads;
  sizes.kv_heads = num_key_value_heads;
  sizes.head_size = head_dim;
  sizes.windows.assign(num_hidden_layers, 0);
  sizes.rope = rope;
  sizes.activation = ActivationNamed(hidden_act);
  sizes.tied = tie_word_embeddings;
  sizes.norm_epsilon = static_cast<float>(rms_norm_eps);
  sizes.stddev = static_cast<float>(initializer_range);
  sizes.attention_dropout = static_cast<float>(attention_dropout);
  AddTo(&sizes);
  return sizes;
}

int64_t DecoderConfig::positions() const {
  return rope.type() == RopeType::kDynamic ? kMaxPositions
                                           : max_position_embeddings;
}

double DecoderConfig::elements_per_token() const {
  const int64_t widest =
      std::max({intermediate_size, hidden_size, num_attention_heads * head_dim,
                num_key_value_heads * head_dim});
  return static_cast<double>(widest) * static_cast<double>(num_hidden_layers);
}

std::string DecoderConfig::Describe() const {
  return absl::StrCat(num_hidden_layers, " layers of ", hidden_size);
}

OrderedJson DecoderConfig::ToJson() const {
  OrderedJson json = {{"vocab_size", vocab_size},
                      {"hidden_size", hidden_size},
                      {"intermediate_size", intermediate_size},
                      {"num_hidden_layers", num_hidden_layers},
                      {"num_attention_heads", num_attention_heads},
                      {"num_key_value_heads", num_key_value_heads},
                      {"head_dim", head_dim},
                      {"hidden_act", hidden_act},
                      {"max_position_embeddings", max_position_embeddings},
                      {"initializer_range", initializer_range},
                      {"rms_norm_eps", rms_norm_eps},
                      {"tie_word_embeddings", tie_word_embeddings},
                      {"rope_parameters", rope.ToJson()},
                      {kDropout, attention_dropout}};
  json.update(OwnToJson());
  return json;
}

OrderedJson DecoderConfig::Identity() const {
  OrderedJson json = ToJson();
  json.erase(kDropout);
  json.erase("initializer_range");
  return json;
}

}  // namespace castor::models
