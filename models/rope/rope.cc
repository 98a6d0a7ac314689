#include "models/rope/rope.h"

#include <initializer_list>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

constexpr absl::string_view kTypes[] = {"default", "linear", "dynamic",
                                        "llama3", "yarn"};

// These bounds are thousands of times what models have. Far beyond them fp32
// does not tell positions apart.
constexpr DoubleRange kTheta = {.min = 1, .max = 1e30, .min_open = true};
constexpr DoubleRange kFactor = {.min = 1, .max = 1e6};
constexpr DoubleRange kShare = {.min = 1e-6, .max = 1e6};
constexpr DoubleRange kScale = {.min = 0, .max = 1e6};
constexpr DoubleRange kPartial = {.min = 0, .max = 1, .min_open = true};
constexpr IntRange kPositions = {.min = 1, .max = int64_t{1} << 31};

// Keys of rope_parameters that some type of transformers' knows. Under another
// type they have no effect.
constexpr absl::string_view kKnown[] = {
    "rope_theta",       "partial_rotary_factor",
    "factor",           "original_max_position_embeddings",
    "low_freq_factor",  "high_freq_factor",
    "attention_factor", "beta_fast",
    "beta_slow",        "mscale",
    "mscale_all_dim",   "truncate",
    "short_factor",     "long_factor"};

std::optional<double> ReadDouble(JsonReader& reader, absl::string_view key,
                                 const DoubleRange& range) {
  if (!reader.Has(key)) return std::nullopt;
  double value = range.max;
  reader.Double(key, &value, range);
  return value;
}

void RequireEach(JsonReader& reader,
                 std::initializer_list<absl::string_view> keys) {
  for (absl::string_view key : keys) reader.Require(key);
}

// None after an error.
std::optional<RopeType> ReadType(JsonReader& object) {
  std::string type = "default", old_type;
  object.String("rope_type", &type);
  object.String("type", &old_type);
  const bool named = object.Has("rope_type") || object.Has("type");
  if (object.Has("type") && object.Has("rope_type") && type != old_type) {
    object.Fail("type", absl::StrCat(QuotedForMessage(old_type),
                                     " contradicts rope_type ",
                                     QuotedForMessage(type)));
  } else if (!named && object.Has("factor")) {
    object.Fail("rope_type", "is required beside factor");
  }
  if (!named) return RopeType::kDefault;
  const std::string& name = object.Has("rope_type") ? type : old_type;
  for (int i = 0; i < static_cast<int>(std::size(kTypes)); ++i) {
    if (name == kTypes[i]) return static_cast<RopeType>(i);
  }
  object.Fail(
      object.Has("rope_type") ? "rope_type" : "type",
      absl::StrCat(QuotedForMessage(name),
                   " is not supported; \"default\", \"linear\", \"dynamic\", "
                   "\"llama3\" and \"yarn\" are"));
  return std::nullopt;
}

}  // namespace

absl::Span<const absl::string_view> Rope::keys() {
  static constexpr absl::string_view kKeys[] = {
      "rope_parameters", "rope_theta", "rope_scaling", "partial_rotary_factor"};
  return kKeys;
}

void Rope::ReadObject(JsonReader& object, JsonReader& outside,
                      const RopeModel& model) {
  const std::optional<RopeType> type = ReadType(object);
  // The keys of an unknown type cannot be judged.
  if (!type.has_value()) return;
  type_ = *type;
  // Reads a key that may stand both inside and outside of the object.
  const auto both = [&](absl::string_view key, absl::string_view outside_key,
                        const DoubleRange& range, double otherwise) {
    const std::optional<double> in = ReadDouble(object, key, range);
    const std::optional<double> out = ReadDouble(outside, outside_key, range);
    if (in.has_value() && out.has_value() && *in != *out) {
      outside.Fail(outside_key,
                   absl::StrCat(*out, " contradicts ", object.PathOf(key), " (",
                                *in, "); leave one of them out"),
                   {object.PathOf(key)});
    }
    return in.has_value() ? *in : out.value_or(otherwise);
  };
  theta_ = both("rope_theta", model.theta_key, kTheta, model.theta);
  partial_factor_ = both("partial_rotary_factor", "partial_rotary_factor",
                         kPartial, /*otherwise=*/1);
  if (type_ != RopeType::kDefault) {
    object.Double("factor", &factor_, kFactor);
    // A YaRN without it has the ratio of lengths (below).
    if (type_ != RopeType::kYarn) object.Require("factor");
  }
  if (type_ == RopeType::kLlama3 || type_ == RopeType::kYarn) {
    constexpr absl::string_view kKey = "original_max_position_embeddings";
    int64_t in = 0, out = 0;
    object.Int(kKey, &in, kPositions);
    outside.Int(kKey, &out, kPositions);
    if (in > 0 && out > 0 && in != out) {
      outside.Fail(kKey,
                   absl::StrCat(out, " contradicts ", object.PathOf(kKey), " (",
                                in, "); leave one of them out"),
                   {object.PathOf(kKey)});
    }
    original_positions_ = in > 0 ? in : out > 0 ? out : model.positions;
  }
  if (type_ == RopeType::kLlama3) {
    RequireEach(object, {"low_freq_factor", "high_freq_factor"});
    object.Double("low_freq_factor", &low_freq_factor_, kShare);
    object.Double("high_freq_factor", &high_freq_factor_, kShare);
    if (high_freq_factor_ <= low_freq_factor_) {
      object.Fail("high_freq_factor",
                  absl::StrCat(high_freq_factor_, " must be above ",
                               object.PathOf("low_freq_factor"), " (",
                               low_freq_factor_, ")"),
                  {object.PathOf("low_freq_factor")});
    }
  }
  if (type_ == RopeType::kYarn) ReadYarn(object);
  for (absl::string_view key : kKnown) object.Has(key);
  object.RefuseUnknownKeys();
}

void Rope::ReadYarn(JsonReader& object) {
  if (!object.Has("factor")) {
    factor_ = static_cast<double>(positions_) /
              static_cast<double>(original_positions_);
    if (factor_ < 1) {
      object.Fail("original_max_position_embeddings",
                  absl::StrCat(original_positions_,
                               " is more than max_position_embeddings (",
                               positions_, "), and there is no factor"),
                  {object.PathOf("factor"), "max_position_embeddings"});
    }
  }
  attention_factor_ = ReadDouble(object, "attention_factor", kShare);
  object.Double("beta_fast", &beta_fast_, kShare);
  object.Double("beta_slow", &beta_slow_, kShare);
  object.Double("mscale", &mscale_, kScale);
  object.Double("mscale_all_dim", &mscale_all_dim_, kScale);
  object.Bool("truncate", &truncate_);
  // DeepSeek-R1-0528-Qwen3-8B has it.
  if (const auto theirs = ReadDouble(object, "attn_factor", kShare)) {
    const double ours = static_cast<double>(attention_factor());
    object.Fail("attn_factor",
                absl::StrCat("programs differ on it: transformers passes over "
                             "it, so that cosines and sines are times ",
                             absl::SixDigits(ours),
                             ", and vLLM multiplies that by it, to ",
                             absl::SixDigits(ours * *theirs), ": put ",
                             object.PathOf("attention_factor"),
                             " in its place, the number that is meant"));
  }
  if (object.Has("finetuned")) {
    notes_.push_back(
        absl::StrCat(object.PathOf("finetuned"),
                     " is passed over, as transformers does: it says how the "
                     "model was made, and changes no position"));
  }
  if (beta_fast_ < beta_slow_) {
    object.Fail("beta_fast",
                absl::StrCat(beta_fast_, " must be at least ",
                             object.PathOf("beta_slow"), " (", beta_slow_, ")"),
                {object.PathOf("beta_slow")});
  }
}

void Rope::Read(JsonReader& reader, const RopeModel& model) {
  const auto read = [&](absl::string_view key, absl::string_view layer_type) {
    Rope rope;
    rope.positions_ = model.positions;
    JsonReader object = reader.Object(key);
    if (layer_type.empty()) {
      rope.ReadObject(object, reader, model);
    } else {
      if (object.Has("rope_type") || object.Has("rope_theta")) {
        object.Fail(layer_type, "expected an object for each kind of layers");
      }
      JsonReader nested = object.Object(layer_type);
      rope.ReadObject(nested, reader, model);
    }
    return rope;
  };
  *this = read("rope_parameters", model.layer_type);
  if (model.scaled && reader.Has("rope_scaling")) {
    const Rope old = read("rope_scaling", "");
    if (!reader.Has("rope_parameters")) {
      *this = old;
    } else if (old.ToJson() != ToJson()) {
      reader.Fail("rope_scaling",
                  absl::StrCat(old.ToJson().dump(), " contradicts ",
                               reader.PathOf("rope_parameters"), " (",
                               ToJson().dump(), "); leave one of them out"),
                  {reader.PathOf("rope_parameters")});
    }
  }
  if (partial_factor_ != 1 && !model.partial) {
    reader.Fail("partial_rotary_factor",
                absl::StrCat(partial_factor_,
                             " is not supported: models of this family turn "
                             "whole heads"));
  }
  channels_ = static_cast<int64_t>(static_cast<double>(model.head_size) *
                                   partial_factor_);
  const int64_t least = type_ == RopeType::kDynamic ? 4 : 2;
  if (channels_ < least || channels_ % 2 != 0) {
    reader.Fail(
        "rope_parameters",
        absl::StrCat(channels_, " channels of heads of ", model.head_size,
                     " cannot turn in pairs: an even number of at "
                     "least ",
                     least, " must"),
        {reader.PathOf("partial_rotary_factor")});
  } else if (!TurnsSlowly()) {
    reader.Fail("rope_parameters",
                absl::StrCat(ToJson().dump(),
                             " turn a pair of channels by what is no number, "
                             "or by more than a radian a position: the values "
                             "are too far from those of any model"));
  }
}

bool Rope::TurnsSlowly() const {
  for (const int64_t length :
       {int64_t{1}, positions_, positions_ + 1, kMostRopePositions}) {
    for (const float frequency : InverseFrequencies(length)) {
      // There is room for roundings; a NaN fails the test.
      if (!(frequency >= 0 && frequency < 2)) return false;
    }
  }
  return true;
}

OrderedJson Rope::ToJson() const {
  OrderedJson json = {
      {"rope_type", std::string(kTypes[static_cast<int>(type_)])},
      {"rope_theta", theta_}};
  if (partial_factor_ != 1) json["partial_rotary_factor"] = partial_factor_;
  if (type_ != RopeType::kDefault) json["factor"] = factor_;
  if (type_ == RopeType::kLlama3 || type_ == RopeType::kYarn) {
    json["original_max_position_embeddings"] = original_positions_;
  }
  if (type_ == RopeType::kLlama3) {
    json["low_freq_factor"] = low_freq_factor_;
    json["high_freq_factor"] = high_freq_factor_;
  }
  if (type_ == RopeType::kYarn) {
    if (attention_factor_) json["attention_factor"] = *attention_factor_;
    json["beta_fast"] = beta_fast_;
    json["beta_slow"] = beta_slow_;
    if (mscale_ != 0) json["mscale"] = mscale_;
    if (mscale_all_dim_ != 0) json["mscale_all_dim"] = mscale_all_dim_;
    json["truncate"] = truncate_;
  }
  return json;
}

}  // namespace castor::models
