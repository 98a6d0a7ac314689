#include "models/shapes/shapes.h"

#include "absl/status/status.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "models/shapes/shape_texts.h"

namespace castor::models {
namespace {

struct OtherName {
  absl::string_view theirs, ours;
};
constexpr OtherName kOtherNames[] = {
    {"gpt2-124m", "gpt2"},        {"gpt2-small", "gpt2"},
    {"gpt2-350m", "gpt2-medium"}, {"gpt2-355m", "gpt2-medium"},
    {"gpt2-774m", "gpt2-large"},  {"gpt2-1.5b", "gpt2-xl"},
    {"gpt3", "gpt3-175b"},        {"mistral-7b-v0.3", "mistral-7b"},
};

absl::string_view NameOf(const EmbeddedText& file) {
  return absl::StripSuffix(file.name, ".json");
}

}  // namespace

std::vector<std::string> ShapeNames() {
  std::vector<std::string> names;
  for (const EmbeddedText& file : ShapeTexts())
    names.emplace_back(NameOf(file));
  return names;
}

absl::StatusOr<absl::string_view> ShapeNamed(absl::string_view name) {
  std::string plain = PlainName(name);
  for (const auto& [theirs, ours] : kOtherNames) {
    if (PlainName(theirs) == plain) plain = PlainName(ours);
  }
  for (const EmbeddedText& file : ShapeTexts()) {
    if (PlainName(NameOf(file)) == plain) return file.text;
  }
  return absl::InvalidArgumentError(UnknownName("model", name, ShapeNames()));
}

}  // namespace castor::models
