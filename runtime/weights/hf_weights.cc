#include "runtime/weights/hf_weights.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/name_pattern.h"
#include "base/status_macros.h"
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

// Returns the names that a file may have for `parameter`, the likeliest first.
// A head of its own has no other's names.
std::vector<std::string> NamesInFiles(const std::string& parameter,
                                      const HfNames& names, bool tied) {
  std::vector<std::string> found = {
      parameter,
      std::string(absl::StripPrefix(parameter, names.optional_prefix))};
  if (tied && parameter == names.embedding) found.push_back(kHeadName);
  for (const HfNames::Ending& ending : names.old_endings) {
    if (!absl::EndsWith(parameter, ending.ours)) continue;
    for (int i = 0; i < 2; ++i) {
      found.push_back(
          absl::StrCat(absl::StripSuffix(found[i], ending.ours), ending.old));
    }
  }
  return found;
}

// The tensor of the first of these names that the file has, or null.
const SafetensorsTensor* FindAny(const SafetensorsModel& model,
                                 const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const auto* tensor = model.Find(name); tensor != nullptr) return tensor;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveHfWeights(
    const SafetensorsModel& model, absl::Span<const HfParameter> parameters,
    const HfNames& names) {
  const bool tied = std::none_of(
      parameters.begin(), parameters.end(),
      [](const HfParameter& each) { return each.name == kHeadName; });
  std::vector<std::string> resolved;
  std::unordered_set<std::string> used;
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  for (const HfParameter& parameter : parameters) {
    const SafetensorsTensor* tensor =
        FindAny(model, NamesInFiles(parameter.name, names, tied));
    if (tensor == nullptr) {
      if (names.other_head && MatchesAnyPattern(names.heads, parameter.name)) {
        resolved.push_back("");
      } else {
        missing.push_back(parameter.name);
      }
      continue;
    }
    const std::string& name = tensor->name;
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
    resolved.push_back(name);
  }
  std::vector<std::string> unexpected;
  for (const std::string& name : model.names()) {
    const bool copy = tied && name == kHeadName && !names.embedding.empty();
    if (!used.contains(name) && !copy &&
        !MatchesAnyPattern(names.without_parameter, name) &&
        !(names.other_head && MatchesAnyPattern(names.heads, name))) {
      unexpected.push_back(QuotedForMessage(name));
    }
  }
  if (missing.empty() && wrong.empty() && unexpected.empty()) return resolved;
  return absl::InvalidArgumentError(absl::StrCat(
      "the weights in ", model.directory(), " do not fit the model",
      Listed("missing", missing), Listed("of another form", wrong),
      Listed("not known", unexpected)));
}

absl::StatusOr<bool> HasHeadOfItsOwn(const SafetensorsModel& model,
                                     const HfNames& names) {
  constexpr int64_t kPiece = 1 << 18;  // elements
  const SafetensorsTensor* head = model.Find(kHeadName);
  const SafetensorsTensor* embedding =
      FindAny(model, NamesInFiles(names.embedding, names, /*tied=*/false));
  if (head == nullptr || embedding == nullptr) return false;
  if (head->shape != embedding->shape || !IsFloat(head->dtype) ||
      !IsFloat(embedding->dtype)) {
    return true;
  }
  std::vector<float> a(kPiece), b(kPiece);
  for (int64_t begin = 0; begin < head->elements; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, head->elements);
    CASTOR_RETURN_IF_ERROR(model.ReadFloats(head->name, begin, end, a.data()));
    CASTOR_RETURN_IF_ERROR(
        model.ReadFloats(embedding->name, begin, end, b.data()));
    if (!std::equal(a.begin(), a.begin() + (end - begin), b.begin())) {
      return true;
    }
  }
  return false;
}

}  // namespace castor
