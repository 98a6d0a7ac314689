#include "run/config/overrides.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json_reader.h"
#include "base/strict_json.h"

namespace castor {
namespace {

// Returns the place of the value to which `path` leads; null, with the reason
// in *why, where it leads nowhere.
Json* FindPlace(const std::vector<std::string>& path, Json* document,
                std::string* why) {
  Json* place = document;
  std::string walked;
  for (const std::string& key : path) {
    if (key.empty()) {
      *why = "the key has an empty part";
      return nullptr;
    }
    // "checkpoint": false has no keys, and may be given some.
    if (place->is_null() || *place == false) *place = Json::object();
    if (!place->is_object()) {
      *why = absl::StrCat(walked, " is ", DescribeJson(*place),
                          ", which has no keys",
                          place->is_array() ? ": set the list as a whole" : "");
      return nullptr;
    }
    walked = JoinPath(walked, key);
    place = &(*place)[key];
  }
  return place;
}

}  // namespace

void ApplyOverrides(absl::Span<const std::string> overrides, Json* document,
                    JsonReport* report) {
  for (const std::string& text : overrides) {
    std::string source = absl::StrCat("--set ", PrintableKey(text));
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      report->AddErrorOf(source,
                         "expected KEY=VALUE, like memory.chunk_size=4MiB");
      continue;
    }
    const std::string key = text.substr(0, equals);
    const std::vector<std::string> path = absl::StrSplit(key, '.');
    std::string why = "the key has too many parts";
    Json* place = path.size() > 16 ? nullptr : FindPlace(path, document, &why);
    if (place == nullptr) {
      report->AddErrorOf(source, why);
      continue;
    }
    const std::string value_text = text.substr(equals + 1);
    absl::StatusOr<Json> value = ParseStrictJson(value_text);
    *place = value.ok() ? *std::move(value) : Json(value_text);
    report->SetSource(key, std::move(source));
  }
}

}  // namespace castor
