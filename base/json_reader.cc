#include "base/json_reader.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

const Json& EmptyObject() {
  static const Json& empty = *new Json(Json::object());
  return empty;
}

std::string NumberText(double value) { return Json(value).dump(); }

// If `exceeded`, the value that is refused is above the range.
std::string RangeText(const IntRange& range, bool exceeded) {
  const IntRange all;
  // A bound that only guards arithmetic says nothing to a person who is below.
  if (range.max >= int64_t{1} << 40 && !exceeded) {
    return range.min == all.min
               ? "an integer"
               : absl::StrCat("an integer of at least ", range.min);
  }
  return absl::StrCat("an integer from ", range.min, " to ", range.max);
}

std::string RangeText(const DoubleRange& range) {
  const DoubleRange all;
  if (range.max == all.max) {
    if (range.min == all.min) return "a finite number";
    return absl::StrCat("a finite number ",
                        range.min_open ? "above " : "of at least ",
                        NumberText(range.min));
  }
  return absl::StrCat("a number in ", range.min_open ? "(" : "[",
                      NumberText(range.min), ", ", NumberText(range.max),
                      range.max_open ? ")" : "]");
}

bool Contains(const DoubleRange& range, double value) {
  if (!std::isfinite(value)) return false;
  if (range.min_open ? value <= range.min : value < range.min) return false;
  return range.max_open ? value < range.max : value <= range.max;
}

std::optional<int64_t> AsInt(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    // 2^53: beyond it a double does not say which integer is meant.
    if (std::abs(number) <= 9007199254740992.0 &&
        number == std::floor(number)) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;
}

}  // namespace

JsonReader::JsonReader(const Json& document, JsonReport& report)
    : JsonReader(&EmptyObject(), "", &report) {
  if (document.is_object()) {
    object_ = &document;
  } else {
    report.AddError("", absl::StrCat("expected an object {...}, found ",
                                     DescribeJson(document)));
  }
}

JsonReader::JsonReader(const Json* object, std::string path, JsonReport* report)
    : object_(object), path_(std::move(path)), report_(report) {}

std::string JsonReader::PathOf(absl::string_view key) const {
  return JoinPath(path_, key);
}

const Json* JsonReader::Raw(absl::string_view key) {
  std::string name(key);
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
    known_.push_back(name);
    report_->AddKnownKey(path_, name);
  }
  const auto found = object_->find(name);
  if (found == object_->end() || found->is_null()) return nullptr;
  return &*found;
}

bool JsonReader::Has(absl::string_view key) { return Raw(key) != nullptr; }

bool JsonReader::IsNull(absl::string_view key) {
  return !Has(key) && object_->contains(std::string(key));
}

void JsonReader::Require(absl::string_view key) {
  if (!Has(key)) FailMissing(key, "is required");
}

void JsonReader::Fail(absl::string_view key, absl::string_view message,
                      std::vector<std::string> concerned) {
  report_->AddError(PathOf(key), message, std::move(concerned));
}

void JsonReader::FailMissing(absl::string_view key, absl::string_view message,
                             std::vector<std::string> concerned) {
  report_->AddMissing(PathOf(key), message, std::move(concerned));
}

void JsonReader::FailExpected(absl::string_view key,
                              absl::string_view expected) {
  const Json* value = Raw(key);
  Fail(key, absl::StrCat("expected ", expected, ", found ",
                         value == nullptr ? "nothing" : DescribeJson(*value)));
}

void JsonReader::Bool(absl::string_view key, bool* out) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) return FailExpected(key, "true or false");
  *out = value->get<bool>();
}

void JsonReader::Int(absl::string_view key, int64_t* out,
                     const IntRange& range) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  const std::optional<int64_t> number = AsInt(*value);
  if (!number.has_value() || *number < range.min || *number > range.max) {
    const bool exceeded =
        value->is_number() &&
        value->get<double>() >= static_cast<double>(range.max);
    return FailExpected(key, RangeText(range, exceeded));
  }
  *out = *number;
}

void JsonReader::Double(absl::string_view key, double* out,
                        const DoubleRange& range) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  if (!value->is_number() || !Contains(range, value->get<double>())) {
    return FailExpected(key, RangeText(range));
  }
  *out = value->get<double>();
}

void JsonReader::String(absl::string_view key, std::string* out) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  if (!value->is_string()) return FailExpected(key, "a string");
  *out = value->get_ref<const std::string&>();
}

void JsonReader::Choice(absl::string_view key,
                        absl::Span<const absl::string_view> choices,
                        int* index) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (value->is_string() &&
        value->get_ref<const std::string&>() == choices[i]) {
      *index = static_cast<int>(i);
      return;
    }
  }
  FailExpected(
      key, absl::StrCat("one of \"", absl::StrJoin(choices, "\", \""), "\""));
}

void JsonReader::Bytes(absl::string_view key, int64_t* out,
                       Unlimited unlimited) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  const bool may_be_unlimited = unlimited == Unlimited::kAllowed;
  const std::string expected =
      absl::StrCat("a size in bytes, as a number or like \"48MiB\"",
                   may_be_unlimited ? ", or \"unlimited\"" : "");
  int64_t bytes = 0;
  if (value->is_string()) {
    const absl::StatusOr<int64_t> parsed =
        ParseBytes(value->get_ref<const std::string&>());
    if (!parsed.ok() || (*parsed == kUnlimitedBytes && !may_be_unlimited)) {
      return FailExpected(key, expected);
    }
    bytes = *parsed;
  } else {
    const std::optional<int64_t> number = AsInt(*value);
    if (!number.has_value() || *number < 0 || *number >= kUnlimitedBytes) {
      return FailExpected(key, expected);
    }
    bytes = *number;
  }
  *out = bytes;
}

void JsonReader::Strings(absl::string_view key, std::vector<std::string>* out) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  if (!value->is_array()) return FailExpected(key, "a list of strings");
  std::vector<std::string> strings;
  for (const Json& item : *value) {
    if (!item.is_string()) {
      return Fail(key, absl::StrCat("expected a list of strings, found ",
                                    DescribeJson(item), " in it"));
    }
    strings.push_back(item.get_ref<const std::string&>());
  }
  *out = std::move(strings);
}

void JsonReader::Doubles(absl::string_view key, absl::Span<double> out,
                         const DoubleRange& range) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  const std::string expected =
      absl::StrCat("a list of ", out.size(), ", each ", RangeText(range));
  if (!value->is_array() || value->size() != out.size()) {
    return FailExpected(key, expected);
  }
  for (const Json& item : *value) {
    if (!item.is_number() || !Contains(range, item.get<double>())) {
      return Fail(key, absl::StrCat("expected ", expected, ", found ",
                                    DescribeJson(item), " in it"));
    }
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] = (*value)[i].get<double>();
}

JsonReader JsonReader::Object(absl::string_view key) {
  const Json* value = Raw(key);
  if (value != nullptr && !value->is_object()) {
    FailExpected(key, "an object {...}");
    value = nullptr;
  }
  return JsonReader(value == nullptr ? &EmptyObject() : value, PathOf(key),
                    report_);
}

void JsonReader::Objects(absl::string_view key,
                         absl::FunctionRef<void(JsonReader& object)> read) {
  const Json* value = Raw(key);
  if (value == nullptr) return;
  if (!value->is_array()) return FailExpected(key, "a list of objects");
  int64_t at = 0;
  for (const Json& item : *value) {
    const std::string name = absl::StrCat(key, "[", at++, "]");
    if (!item.is_object()) {
      Fail(name, absl::StrCat("expected an object {...}, found ",
                              DescribeJson(item)));
      continue;
    }
    JsonReader reader(&item, PathOf(name), report_);
    read(reader);
  }
}

bool JsonReader::Failed(absl::string_view key) const {
  return report_->HasErrorAt(PathOf(key));
}

void JsonReader::RefuseUnknownKeys() {
  for (const auto& [key, value] : object_->items()) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      report_->AddUnknownKey(path_, key, known_);
    }
  }
}

std::string DescribeJson(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) {
    return absl::StrCat("a list of ", value.size());
  }
  if (value.is_string()) {
    return absl::StrCat("the string \"",
                        PrintableKey(value.get_ref<const std::string&>()),
                        "\"");
  }
  return value.dump();  // a number, true, false, null
}

}  // namespace castor
