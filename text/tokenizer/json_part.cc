#include "text/tokenizer/json_part.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/unicode/utf8.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

absl::StatusOr<JsonPart> JsonPart::Make(const Json& value, std::string path) {
  if (!value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected an object {...}, found ", DescribeJson(value)));
  }
  return JsonPart(value, std::move(path));
}

std::string JsonPart::PathOf(absl::string_view key) const {
  // The file's name, then keys.
  const bool is_root = path_.find(": ") == std::string::npos;
  return key.empty() ? path_ : absl::StrCat(path_, is_root ? ": " : ".", key);
}

absl::Status JsonPart::Error(absl::string_view key,
                             absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(PathOf(key), ": ", what));
}

const Json* JsonPart::Find(absl::string_view key) const {
  const auto found = value_->find(std::string(key));
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<bool> JsonPart::Bool(absl::string_view key,
                                    bool otherwise) const {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    return Error(key, absl::StrCat("expected true or false, found ",
                                   DescribeJson(*value)));
  }
  return value->get<bool>();
}

absl::StatusOr<int64_t> JsonPart::Int(absl::string_view key, int64_t otherwise,
                                      const IntRange& range) const {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() ||
       value->get<uint64_t>() <= static_cast<uint64_t>(range.max)) &&
      value->get<int64_t>() >= range.min && value->get<int64_t>() <= range.max;
  if (!fits) {
    return Error(key,
                 absl::StrCat("expected an integer from ", range.min, " to ",
                              range.max, ", found ", DescribeJson(*value)));
  }
  return value->get<int64_t>();
}

absl::StatusOr<std::optional<std::string>> JsonPart::OptionalString(
    absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    return Error(
        key, absl::StrCat("expected a string, found ", DescribeJson(*value)));
  }
  return value->get<std::string>();
}

absl::StatusOr<std::string> JsonPart::String(
    absl::string_view key, absl::string_view otherwise) const {
  CASTOR_ASSIGN_OR_RETURN(std::optional<std::string> value,
                          OptionalString(key));
  return value.has_value() ? *std::move(value) : std::string(otherwise);
}

absl::StatusOr<std::string> JsonPart::RequiredString(
    absl::string_view key) const {
  CASTOR_ASSIGN_OR_RETURN(std::optional<std::string> value,
                          OptionalString(key));
  if (!value.has_value()) return Error(key, "is required");
  return *std::move(value);
}

absl::StatusOr<char32_t> JsonPart::Character(absl::string_view key) const {
  CASTOR_ASSIGN_OR_RETURN(const std::string text, RequiredString(key));
  if (text.empty() || Utf8Length(text[0]) != static_cast<int>(text.size())) {
    return Error(key, "expected a string of one character");
  }
  size_t place = 0;
  return NextCodePoint(text, &place);
}

absl::StatusOr<JsonPart> JsonPart::Object(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return Error(key, "is required");
  return Make(*value, PathOf(key));
}

absl::StatusOr<const Json*> JsonPart::List(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return Error(key, "is required");
  if (!value->is_array()) {
    return Error(key, absl::StrCat("expected a list [...], found ",
                                   DescribeJson(*value)));
  }
  return value;
}

absl::StatusOr<std::vector<JsonPart>> JsonPart::Objects(
    absl::string_view key) const {
  CASTOR_ASSIGN_OR_RETURN(const Json* const list, List(key));
  std::vector<JsonPart> parts;
  for (size_t i = 0; i < list->size(); ++i) {
    CASTOR_ASSIGN_OR_RETURN(
        JsonPart part,
        Make((*list)[i], absl::StrCat(PathOf(key), "[", i, "]")));
    parts.push_back(std::move(part));
  }
  return parts;
}

absl::Status JsonPart::Unsupported(absl::string_view type,
                                   absl::string_view known) const {
  return Error("", absl::StrCat("the type ", DescribeJson(Json(type)),
                                " is not supported; there are ", known,
                                " (docs/tokenizers.md)"));
}

int32_t AsTokenId(const Json& value) {
  if (!value.is_number_unsigned()) return Vocabulary::kNone;
  const uint64_t id = value.get<uint64_t>();
  return id <= Vocabulary::kMaxId ? static_cast<int32_t>(id)
                                  : Vocabulary::kNone;
}

}  // namespace castor::text
