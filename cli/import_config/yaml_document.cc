#include "cli/import_config/yaml_document.h"

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace castor::cli {
namespace {

constexpr int kMaxDepth = 16;
constexpr int kMaxValues = 100000;

bool IsOneOf(const std::string& word,
             std::initializer_list<absl::string_view> words) {
  for (const absl::string_view each : words) {
    if (word == each) return true;
  }
  return false;
}

// A value without quotes.
Json PlainScalar(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (IsOneOf(lower, {"", "~", "null"})) return nullptr;
  if (IsOneOf(lower, {"true", "yes", "on"})) return true;
  if (IsOneOf(lower, {"false", "no", "off"})) return false;
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  double number = 0;
  if (absl::ascii_isdigit(text.back()) || text.back() == '.') {
    if (absl::SimpleAtod(text, &number) && std::isfinite(number)) return number;
  }
  return text;
}

class Converter {
 public:
  absl::StatusOr<Json> Convert(const YAML::Node& node, int depth) {
    if (depth > kMaxDepth || ++values_ > kMaxValues) {
      return absl::InvalidArgumentError(
          "it is deeper or longer than a configuration");
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return node.Tag() == "?" ? PlainScalar(node.Scalar())
                                 : Json(node.Scalar());
      case YAML::NodeType::Sequence: {
        Json list = Json::array();
        for (const YAML::Node& each : node) {
          CASTOR_ASSIGN_OR_RETURN(Json value, Convert(each, depth + 1));
          list.push_back(std::move(value));
        }
        return list;
      }
      case YAML::NodeType::Map:
        return ConvertMap(node, depth);
      default:
        return Json(nullptr);
    }
  }

 private:
  absl::StatusOr<Json> ConvertMap(const YAML::Node& node, int depth) {
    Json object = Json::object();
    for (const auto& pair : node) {
      const YAML::Node& key = pair.first;
      if (!key.IsScalar()) {
        return absl::InvalidArgumentError("a key is no string");
      }
      const std::string& name = key.Scalar();
      if (object.contains(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", key.Mark().line + 1, ": key \"",
                         PrintableKey(name), "\" is there twice"));
      }
      CASTOR_ASSIGN_OR_RETURN(object[name], Convert(pair.second, depth + 1));
    }
    return object;
  }

  int values_ = 0;
};

}  // namespace

absl::StatusOr<Json> ParseYaml(absl::string_view text) {
  // The library says by exceptions what is wrong.
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      return absl::InvalidArgumentError(
          "it has several documents; give one file for each");
    }
    if (documents.empty() || documents[0].IsNull()) return Json::object();
    return Converter().Convert(documents[0], 0);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", error.mark.line + 1, ": ", error.msg));
  }
}

}  // namespace castor::cli
