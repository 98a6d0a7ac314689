#include "run/config/config_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/strict_json.h"

namespace castor {
namespace {

// Returns true if `text` begins with a name, as languages have them, and then
// `follows`.
bool IsNameBefore(absl::string_view text, absl::string_view follows) {
  const auto end =
      std::find_if_not(text.begin(), text.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
      });
  if (end == text.begin()) return false;
  absl::string_view rest = text.substr(end - text.begin());
  if (follows == "=") rest = absl::StripLeadingAsciiWhitespace(rest);
  return absl::StartsWith(rest, follows);
}

bool IsPython(absl::string_view line) {
  for (const absl::string_view word :
       {"import ", "from ", "def ", "class ", "print(", "\"\"\"", "'''"}) {
    if (absl::StartsWith(line, word)) return true;
  }
  if (!IsNameBefore(line, "=")) return false;
  const absl::string_view value =
      absl::StripAsciiWhitespace(line.substr(line.find('=') + 1));
  for (const absl::string_view word : {"True", "False", "None", "dict("}) {
    if (absl::StartsWith(value, word)) return true;
  }
  return value == "{" || value == "[" || value == "(";
}

bool IsToml(absl::string_view line) {
  absl::string_view table = line;
  if (absl::ConsumePrefix(&table, "[")) {
    absl::ConsumePrefix(&table, "[");
    return IsNameBefore(table, "]");
  }
  return IsNameBefore(line, "=");
}

bool IsYaml(absl::string_view line) {
  return absl::StartsWith(line, "---") || absl::StartsWith(line, "%YAML") ||
         absl::StartsWith(line, "- ") || IsNameBefore(line, ": ") ||
         (IsNameBefore(line, ":") && absl::EndsWith(line, ":"));
}

// The language in which other programs have configurations and in which `text`
// is, which is no JSON; "" where it is in none of them.
absl::string_view OtherLanguage(absl::string_view text,
                                absl::string_view name) {
  for (const auto& [ending, language] :
       {std::pair<absl::string_view, absl::string_view>{".yaml", "YAML"},
        {".yml", "YAML"},
        {".toml", "TOML"},
        {".py", "Python"}}) {
    if (absl::EndsWithIgnoreCase(name, ending)) return language;
  }
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  absl::string_view language;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    if (IsPython(line)) return "Python";
    if (!language.empty()) continue;
    // The first line decides, but that a line of Python may look like TOML's.
    if (IsToml(line)) {
      language = "TOML";
    } else {
      return IsYaml(line) ? "YAML" : "";
    }
  }
  return language;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseConfigText(absl::string_view text,
                                               absl::string_view source) {
  absl::StatusOr<nlohmann::json> document = ParseStrictJson(
      text, {.max_depth = 16, .max_values = 100000, .allow_comments = true});
  if (document.ok()) return document;
  const absl::string_view language = OtherLanguage(text, source);
  if (language.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", document.status().message()));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": this is ", language,
      ", and a configuration of castor is one JSON object, like {\"model\": "
      "{\"pretrained\": \"DIR\"}, \"data\": {\"train\": \"text.jsonl\"}, "
      "\"steps\": 100, \"train_batch_size\": 8}: write it as JSON",
      language == "YAML"
          ? ", or have castor import-config make it of another system's"
          : ""));
}

}  // namespace castor
