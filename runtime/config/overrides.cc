#include "runtime/config/overrides.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json_reader.h"
#include "base/strict_json.h"

namespace castor {
namespace {

absl::Status Refuse(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--set ", QuotedForMessage(text), ": ", why));
}

}  // namespace

absl::Status ApplyOverrides(absl::Span<const std::string> overrides,
                            Json* document) {
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Refuse(text, "expected KEY=VALUE, like memory.chunk_size=4MiB");
    }
    const std::vector<std::string> path =
        absl::StrSplit(text.substr(0, equals), '.');
    const std::string value_text = text.substr(equals + 1);
    if (path.size() > 16) return Refuse(text, "the key has too many parts");

    Json* place = document;
    std::string walked;
    for (const std::string& key : path) {
      if (key.empty()) return Refuse(text, "the key has an empty part");
      // "checkpoint": false has no keys, and may be given some.
      if (place->is_null() || *place == false) *place = Json::object();
      if (!place->is_object()) {
        return Refuse(
            text,
            absl::StrCat(walked, " is ", DescribeJson(*place),
                         ", which has no keys",
                         place->is_array() ? ": set the list as a whole" : ""));
      }
      walked = walked.empty() ? key : absl::StrCat(walked, ".", key);
      place = &(*place)[key];
    }
    absl::StatusOr<Json> value = ParseStrictJson(value_text);
    *place = value.ok() ? *std::move(value) : Json(value_text);
  }
  return absl::OkStatus();
}

}  // namespace castor
