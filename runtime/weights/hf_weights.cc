#include "runtime/weights/hf_weights.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/name_pattern.h"
#include "base/strict_json.h"

namespace castor {
namespace {

bool IsFloat(SafetensorsDtype dtype) {
  return dtype == SafetensorsDtype::kF32 || dtype == SafetensorsDtype::kBF16 ||
         dtype == SafetensorsDtype::kF16;
}

std::string FormatShape(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// "; missing: a, b, and 5 more", or nothing. A wrong model differs in hundreds
// of names: the first few say it.
std::string Listed(absl::string_view what,
                   const std::vector<std::string>& items) {
  constexpr size_t kShown = 8;
  if (items.empty()) return "";
  const size_t shown = std::min(items.size(), kShown);
  std::string text =
      absl::StrCat("; ", what, ": ",
                   absl::StrJoin(items.begin(), items.begin() + shown, ", "));
  if (shown < items.size()) {
    absl::StrAppend(&text, " and ", items.size() - shown, " more");
  }
  return text;
}

// What a file may call `parameter`, the likeliest first.
std::vector<std::string> NamesInFiles(
    const std::string& parameter, const HfNames& names,
    const std::unordered_set<std::string>& ours) {
  std::vector<std::string> found = {
      parameter,
      std::string(absl::StripPrefix(parameter, names.optional_prefix))};
  for (const HfOtherName& other : names.other_names) {
    if (other.parameter == parameter && !ours.contains(other.in_file)) {
      found.push_back(other.in_file);
    }
  }
  return found;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveHfWeights(
    const SafetensorsModel& model, absl::Span<const HfParameter> parameters,
    const HfNames& names) {
  std::unordered_set<std::string> ours;
  for (const HfParameter& parameter : parameters) ours.insert(parameter.name);
  std::vector<std::string> resolved;
  std::unordered_set<std::string> used;
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  for (const HfParameter& parameter : parameters) {
    const SafetensorsTensor* tensor = nullptr;
    std::string name;
    for (std::string& candidate : NamesInFiles(parameter.name, names, ours)) {
      tensor = model.Find(candidate);
      if (tensor == nullptr) continue;
      name = std::move(candidate);
      break;
    }
    if (tensor == nullptr) {
      missing.push_back(parameter.name);
      continue;
    }
    if (tensor->shape != parameter.shape) {
      wrong.push_back(absl::StrCat(QuotedForMessage(name), " is ",
                                   FormatShape(tensor->shape), ", want ",
                                   FormatShape(parameter.shape)));
    } else if (!IsFloat(tensor->dtype)) {
      wrong.push_back(absl::StrCat(QuotedForMessage(name), " is ",
                                   SafetensorsDtypeName(tensor->dtype),
                                   ", want F32, BF16 or F16"));
    }
    used.insert(name);
    resolved.push_back(std::move(name));
  }
  std::vector<std::string> unexpected;
  for (const std::string& name : model.names()) {
    if (!used.contains(name) &&
        !MatchesAnyPattern(names.without_parameter, name)) {
      unexpected.push_back(QuotedForMessage(name));
    }
  }
  if (missing.empty() && wrong.empty() && unexpected.empty()) return resolved;
  return absl::InvalidArgumentError(absl::StrCat(
      "the weights in ", model.directory(), " do not fit the model",
      Listed("missing", missing), Listed("of another form", wrong),
      Listed("not known", unexpected)));
}

}  // namespace castor
