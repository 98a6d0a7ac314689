// Reads a record's keys with their types and ranges. For the reader only.
#ifndef CASTOR_TRACER_JSON_FIELDS_H_
#define CASTOR_TRACER_JSON_FIELDS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/units.h"
#include "nlohmann/json.hpp"
#include "tracer/trace_file.h"

namespace castor {

using Json = nlohmann::json;

inline std::string Printable(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text.substr(0, 80)),
                      text.size() > 80 ? "...\"" : "\"");
}

// Reads the keys of one object. The first error stays in `error`; values after
// it are meaningless.
class JsonFields {
 public:
  JsonFields(const Json& object, std::string where, std::string* error)
      : object_(object), where_(std::move(where)), error_(error) {
    if (!object.is_object()) Fail("", "is no object");
  }

  bool ok() const { return error_->empty(); }
  // Returns true if an optional key is there.
  bool Has(absl::string_view key) const {
    return object_.is_object() && object_.contains(std::string(key));
  }

  void Fail(absl::string_view key, absl::string_view why) {
    if (!ok()) return;
    *error_ =
        absl::StrCat(where_, key.empty() || where_.empty() ? "" : ".", key,
                     where_.empty() && key.empty() ? "the record " : " ", why);
  }

  int64_t Int(absl::string_view key, int64_t min = 0,
              int64_t max = kMaxTraceNumber) {
    const Json* value = Get(key);
    if (value == nullptr) return 0;
    int64_t number = 0;
    if (!AsInt(*value, &number) || number < min || number > max) {
      Fail(key, absl::StrCat("must be an integer from ", min, " to ", max));
    }
    return number;
  }

  // Reads a budget; null stands for "unlimited".
  int64_t Budget(absl::string_view key) {
    const Json* value = Get(key);
    if (value == nullptr || value->is_null()) return kUnlimitedBytes;
    return Int(key);
  }

  double Double(absl::string_view key, double min) {
    const Json* value = Get(key);
    if (value == nullptr) return 0;
    const double number = value->is_number() ? value->get<double>() : NAN;
    if (std::isfinite(number) && number >= min) return number;
    Fail(key, absl::StrCat("must be a number of at least ", min));
    return 0;
  }

  // Reads a number, or null as NaN, for which JSON has no number.
  double DoubleOrNan(absl::string_view key) {
    const Json* value = Get(key);
    if (value == nullptr || value->is_null()) return NAN;
    return Double(key, -std::numeric_limits<double>::max());
  }

  bool Bool(absl::string_view key) {
    const Json* value = Get(key);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    Fail(key, "must be true or false");
    return false;
  }

  std::string String(absl::string_view key) {
    const Json* value = Get(key);
    if (value == nullptr) return "";
    if (IsName(*value)) return value->get<std::string>();
    Fail(key, absl::StrCat("must be a string of at most ", kMaxTraceNameBytes,
                           " bytes"));
    return "";
  }

  std::vector<std::string> Names(absl::string_view key) {
    std::vector<std::string> names;
    for (const Json& name : List(key)) {
      if (!IsName(name)) {
        Fail(key, absl::StrCat("must hold strings of at most ",
                               kMaxTraceNameBytes, " bytes"));
        return {};
      }
      names.push_back(name.get<std::string>());
    }
    return names;
  }

  template <typename Enum>
  Enum OneOf(absl::string_view key, absl::Span<const absl::string_view> names) {
    const std::string name = String(key);
    for (size_t i = 0; i < names.size(); ++i) {
      if (name == names[i]) return static_cast<Enum>(i);
    }
    Fail(key, absl::StrCat("is ", Printable(name), ", not one of ",
                           absl::StrJoin(names, ", ")));
    return Enum();
  }

  const Json& List(absl::string_view key) {
    static const Json& none = *new Json(Json::array());
    const Json* value = Get(key);
    if (value == nullptr) return none;
    if (value->is_array() &&
        static_cast<int64_t>(value->size()) <= kMaxTraceItems) {
      return *value;
    }
    Fail(key, absl::StrCat("must be a list of at most ", kMaxTraceItems));
    return none;
  }

  const Json& Object(absl::string_view key) {
    static const Json& none = *new Json(Json::object());
    const Json* value = Get(key);
    if (value == nullptr) return none;
    if (value->is_object()) return *value;
    Fail(key, "must be an object");
    return none;
  }

  // Reports keys that were not read as errors; call it last.
  void Done() {
    if (ok() && object_.size() != used_.size()) {
      for (const auto& [key, value] : object_.items()) {
        if (!used_.contains(key)) {
          return Fail("", absl::StrCat("has the unknown key ", Printable(key)));
        }
      }
    }
  }

  static bool AsInt(const Json& value, int64_t* number) {
    if (!value.is_number_integer()) return false;  // unsigned included
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return false;
    }
    *number = value.get<int64_t>();
    return true;
  }

  static bool IsName(const Json& value) {
    return value.is_string() &&
           static_cast<int64_t>(value.get_ref<const std::string&>().size()) <=
               kMaxTraceNameBytes;
  }

 private:
  const Json* Get(absl::string_view key) {
    if (!ok()) return nullptr;
    const std::string name(key);
    const auto found = object_.find(name);
    if (found == object_.end()) {
      Fail(key, "is missing");
      return nullptr;
    }
    used_.insert(name);
    return &*found;
  }

  const Json& object_;
  const std::string where_;
  std::string* const error_;
  std::set<std::string> used_;
};

}  // namespace castor

#endif  // CASTOR_TRACER_JSON_FIELDS_H_
