#include "models/decoder/decoder_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/activation_names.h"
#include "models/size_limits.h"

namespace castor::models {
namespace {

constexpr ConfigKey<DecoderConfig> kSharedKeys[] = {
    {"vocab_size",
     &DecoderConfig::vocab_size,
     {.min = 1, .max = kMaxVocabulary}},
    {"hidden_size", &DecoderConfig::hidden_size, {.min = 1, .max = kMaxWidth}},
    {"intermediate_size",
     &DecoderConfig::intermediate_size,
     {.min = 1, .max = kMaxInner}},
    {"num_hidden_layers",
     &DecoderConfig::num_hidden_layers,
     {.min = 1, .max = kMaxLayers}},
    {"num_attention_heads",
     &DecoderConfig::num_attention_heads,
     {.min = 1, .max = kMaxWidth}},
    {"num_key_value_heads",
     &DecoderConfig::num_key_value_heads,
     {.min = 1, .max = kMaxWidth},
     IfNull::kZero},
    {"head_dim",
     &DecoderConfig::head_dim,
     {.min = 1, .max = kMaxWidth},
     IfNull::kZero},
    {"hidden_act", &DecoderConfig::hidden_act},
    {"max_position_embeddings",
     &DecoderConfig::max_position_embeddings,
     {.min = 1, .max = kMaxPositions}},
    {"initializer_range", &DecoderConfig::initializer_range, kDeviation,
     KeyRole::kInitialValues},
    {"rms_norm_eps", &DecoderConfig::rms_norm_eps, kEpsilon},
    {"tie_word_embeddings", &DecoderConfig::tie_word_embeddings},
    {"attention_dropout", &DecoderConfig::attention_dropout, kProbability,
     KeyRole::kDropout},
};
constexpr absl::Span<const ConfigKey<DecoderConfig>> kShared = kSharedKeys;

}  // namespace

DecoderConfig::DecoderConfig(const DecoderKind* kind) : kind(kind) {
  if (kind->set_defaults != nullptr) kind->set_defaults(this);
}

absl::Span<const ConfigKey<DecoderConfig>> DecoderConfig::shared_keys() {
  return kShared;
}

void DecoderConfig::Read(JsonReader& reader) {
  ReadKeys(kShared, reader, this);
  if (num_key_value_heads == 0) num_key_value_heads = num_attention_heads;
  RequireMultiple(reader, "num_attention_heads", num_attention_heads,
                  "num_key_value_heads", num_key_value_heads);
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
  ReadKeys(absl::MakeConstSpan(kind->own_keys), reader, this);
  if (kind->has_layer_windows) layer_windows.Read(reader, num_hidden_layers);
  if (kind->whole_heads) {
    RequireMultiple(reader, "hidden_size", hidden_size, "num_attention_heads",
                    num_attention_heads);
  }
}

DecoderSizes DecoderConfig::Sizes() const {
  DecoderSizes sizes;
  sizes.vocabulary = vocab_size;
  sizes.channels = hidden_size;
  sizes.inner = intermediate_size;
  sizes.heads = num_attention_heads;
  sizes.kv_heads = num_key_value_heads;
  sizes.head_size = head_dim;
  sizes.rope = rope;
  sizes.activation = ActivationNamed(hidden_act);
  sizes.tied = tie_word_embeddings;
  sizes.norm_epsilon = static_cast<float>(rms_norm_eps);
  sizes.stddev = static_cast<float>(initializer_range);
  sizes.attention_dropout = static_cast<float>(attention_dropout);
  sizes.qkv_bias = kind->qkv_bias || attention_bias;
  sizes.output_bias = attention_bias;
  sizes.mlp_bias = mlp_bias;
  sizes.head_norms = kind->head_norms;
  if (kind->has_layer_windows) {
    sizes.windows = layer_windows.windows();
  } else {
    sizes.windows.assign(num_hidden_layers, sliding_window);
  }
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
  OrderedJson json;
  WriteKeys(kShared, *this, &json);
  json["rope_parameters"] = rope.ToJson();
  WriteKeys(absl::MakeConstSpan(kind->own_keys), *this, &json);
  if (kind->has_layer_windows) json.update(layer_windows.ToJson());
  return json;
}

OrderedJson DecoderConfig::Identity() const {
  OrderedJson json = ToJson();
  EraseRates(kShared, &json);
  return json;
}

}  // namespace castor::models
