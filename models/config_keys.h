// The keys of a model's configuration as a table: a key's name in Castor's and
// Hugging Face's files, the member that it fills, and the values that it may
// have. Of the table follow how a configuration is read, written and compared,
// and which keys may stand beside a directory of weights.
//
//   constexpr ConfigKey<OptConfig> kKeys[] = {
//       {"hidden_size", &OptConfig::hidden_size, {.min = 1, .max = kMaxWidth}},
//       {"enable_bias", &OptConfig::enable_bias},
//       {"dropout", &OptConfig::dropout, kProbability, KeyRole::kDropout},
//   };
#ifndef CASTOR_MODELS_CONFIG_KEYS_H_
#define CASTOR_MODELS_CONFIG_KEYS_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"
#include "models/activation_names.h"
#include "models/size_limits.h"
#include "nlohmann/json.hpp"

namespace castor::models {

enum class KeyRole : uint8_t {
  kFunction,       // it makes another function of the parameters
  kInitialValues,  // it says what parameters begin with
  kDropout,        // a probability, which may stand beside a directory, too
  kHead,           // which head there is, which may stand beside one, too
};

enum class IfNull : uint8_t {
  kDefault,  // JSON null is as if the key were absent
  kZero,     // JSON null is 0, and 0 is written as null
};

inline constexpr DoubleRange kProbability = {
    .min = 0, .max = 1, .max_open = true};
inline constexpr DoubleRange kDeviation = {.min = 0, .max = kMaxDeviation};
inline constexpr DoubleRange kEpsilon = {.min = 0, .max = 1, .min_open = true};

// A key as a Family knows it.
struct KeyUse {
  absl::string_view name;
  KeyRole role = KeyRole::kFunction;
  // A key of kHead has the names that it may have here, or none if it is a
  // number, whose range follows.
  absl::Span<const absl::string_view> choices = {};
  IntRange ints = {};
};

// A key of `Config`, an Architecture.
template <class Config>
struct ConfigKey : KeyUse {
  constexpr ConfigKey(absl::string_view name, int64_t Config::*member,
                      IntRange range, IfNull if_null = IfNull::kDefault,
                      KeyRole role = KeyRole::kFunction)
      : KeyUse{name, role, {}, range}, member(member), if_null(if_null) {}
  constexpr ConfigKey(absl::string_view name, double Config::*member,
                      DoubleRange range, KeyRole role = KeyRole::kFunction)
      : KeyUse{name, role}, member(member), doubles(range) {}
  constexpr ConfigKey(absl::string_view name, bool Config::*member)
      : KeyUse{name}, member(member) {}
  // The name of a head, one of these.
  constexpr ConfigKey(absl::string_view name, std::string Config::*member,
                      absl::Span<const absl::string_view> heads)
      : KeyUse{name, KeyRole::kHead, heads}, member(member) {}
  // The name of an activation function (activation_names.h).
  constexpr ConfigKey(absl::string_view name, std::string Config::*member)
      : KeyUse{name}, member(member) {}

  std::variant<int64_t Config::*, double Config::*, bool Config::*,
               std::string Config::*>
      member;
  DoubleRange doubles = {};
  IfNull if_null = IfNull::kDefault;
};

// Like reader.Int, but that null is 0.
inline void IntOrNull(JsonReader& reader, absl::string_view key, int64_t* out,
                      const IntRange& range) {
  if (reader.IsNull(key)) *out = 0;
  reader.Int(key, out, range);
}

// Refuses a `value` at `key` that is no multiple of the value `of` at `of_key`.
inline void RequireMultiple(JsonReader& reader, absl::string_view key,
                            int64_t value, absl::string_view of_key,
                            int64_t of) {
  if (value % of == 0) return;
  reader.Fail(key,
              absl::StrCat(value, " is not a multiple of ",
                           reader.PathOf(of_key), " (", of, ")"),
              {reader.PathOf(of_key)});
}

// Reads one of `choices` into `out`.
inline void ReadChoice(JsonReader& reader, absl::string_view key,
                       absl::Span<const absl::string_view> choices,
                       std::string* out) {
  if (!reader.Has(key)) return;
  int index = 0;
  reader.Choice(key, choices, &index);
  *out = std::string(choices[static_cast<size_t>(index)]);
}

// Reads all keys into `config`; errors go into the reader's report.
template <class Config>
void ReadKeys(absl::Span<const ConfigKey<Config>> keys, JsonReader& reader,
              Config* config) {
  for (const ConfigKey<Config>& key : keys) {
    std::visit(
        [&](auto member) {
          auto* const out = &(config->*member);
          using Value = std::remove_pointer_t<decltype(out)>;
          if constexpr (std::is_same_v<Value, int64_t>) {
            if (key.if_null == IfNull::kZero) {
              IntOrNull(reader, key.name, out, key.ints);
            } else {
              reader.Int(key.name, out, key.ints);
            }
          } else if constexpr (std::is_same_v<Value, double>) {
            reader.Double(key.name, out, key.doubles);
          } else if constexpr (std::is_same_v<Value, bool>) {
            reader.Bool(key.name, out);
          } else if (!key.choices.empty()) {
            ReadChoice(reader, key.name, key.choices, out);
          } else {
            ReadActivation(reader, key.name, out);
          }
        },
        key.member);
  }
}

// Adds all keys to `json`, in the table's order.
template <class Config>
void WriteKeys(absl::Span<const ConfigKey<Config>> keys, const Config& config,
               OrderedJson* json) {
  for (const ConfigKey<Config>& key : keys) {
    OrderedJson& value = (*json)[std::string(key.name)];
    std::visit([&](auto member) { value = config.*member; }, key.member);
    if (key.if_null == IfNull::kZero && value == 0) value = nullptr;
  }
}

// Leaves what makes another function of the parameters.
template <class Config>
void EraseRates(absl::Span<const ConfigKey<Config>> keys, OrderedJson* json) {
  for (const ConfigKey<Config>& key : keys) {
    if (key.role == KeyRole::kInitialValues || key.role == KeyRole::kDropout) {
      json->erase(std::string(key.name));
    }
  }
}

template <class Config>
std::vector<KeyUse> UsesOf(absl::Span<const ConfigKey<Config>> keys) {
  return {keys.begin(), keys.end()};
}

}  // namespace castor::models

#endif  // CASTOR_MODELS_CONFIG_KEYS_H_
