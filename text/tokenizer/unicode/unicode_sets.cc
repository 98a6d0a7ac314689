#include "text/tokenizer/unicode/unicode_sets.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "text/tokenizer/unicode/tables.h"

namespace castor::text {
namespace {

// A category's number in tables.inc is its place here.
struct CategoryName {
  absl::string_view name, long_name;
};
constexpr CategoryName kCategoryNames[] = {
    {"lu", "uppercaseletter"},
    {"ll", "lowercaseletter"},
    {"lt", "titlecaseletter"},
    {"lm", "modifierletter"},
    {"lo", "otherletter"},
    {"mn", "nonspacingmark"},
    {"mc", "spacingmark"},
    {"me", "enclosingmark"},
    {"nd", "decimalnumber"},
    {"nl", "letternumber"},
    {"no", "othernumber"},
    {"pc", "connectorpunctuation"},
    {"pd", "dashpunctuation"},
    {"ps", "openpunctuation"},
    {"pe", "closepunctuation"},
    {"pi", "initialpunctuation"},
    {"pf", "finalpunctuation"},
    {"po", "otherpunctuation"},
    {"sm", "mathsymbol"},
    {"sc", "currencysymbol"},
    {"sk", "modifiersymbol"},
    {"so", "othersymbol"},
    {"zs", "spaceseparator"},
    {"zl", "lineseparator"},
    {"zp", "paragraphseparator"},
    {"cc", "control"},
    {"cf", "format"},
    {"cs", "surrogate"},
    {"co", "privateuse"},
    {"cn", "unassigned"},
};

// Several categories: those whose short names begin with `letter`.
struct GroupName {
  char letter;
  absl::string_view long_name;
};
constexpr GroupName kGroupNames[] = {
    {'l', "letter"}, {'m', "mark"},      {'n', "number"}, {'p', "punctuation"},
    {'s', "symbol"}, {'z', "separator"}, {'c', "other"},
};

CodePointSet SetOf(absl::Span<const uint32_t> gaps) {
  return CodePointSet::FromGaps(gaps);
}

template <class Wanted>
CodePointSet CategoriesThat(const Wanted& wanted) {
  const absl::Span<const uint32_t> runs = tables::Categories();
  std::vector<uint32_t> gaps;
  char32_t place = 0, end = 0;
  for (size_t i = 0; i < runs.size(); i += 3) {
    const char32_t begin = place + runs[i];
    place = begin + runs[i + 1];
    if (!wanted(kCategoryNames[runs[i + 2]])) continue;
    gaps.push_back(begin - end);
    gaps.push_back(place - begin);
    end = place;
  }
  // Ranges of two categories may touch.
  return SetOf(gaps).Union(CodePointSet());
}

CodePointTable MakeTraits() {
  std::vector<uint8_t> traits(kNumCodePoints);
  const auto add = [&](absl::Span<const uint32_t> gaps, Trait trait) {
    const CodePointSet set = SetOf(gaps);
    for (const CodePointSet::Range& range : set.ranges()) {
      for (char32_t c = range.begin; c < range.end; ++c) {
        traits[c] |= static_cast<uint8_t>(trait);
      }
    }
  };
  add(tables::Whitespace(), Trait::kWhitespace);
  add(tables::Numeric(), Trait::kNumeric);
  add(tables::Word(), Trait::kWord);
  add(tables::Punctuation(), Trait::kPunctuation);
  add(tables::Nonspacing(), Trait::kNonspacing);
  add(tables::Other(), Trait::kOther);
  add(tables::CombiningMark(), Trait::kCombiningMark);
  return CodePointTable(traits);
}

}  // namespace

bool Has(char32_t code_point, Trait trait) {
  static const CodePointTable& traits = *new CodePointTable(MakeTraits());
  return (traits[code_point] & static_cast<uint8_t>(trait)) != 0;
}

std::optional<CodePointSet> PropertySet(absl::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') {
      plain.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
    }
  }
  if (plain == "any") return CodePointSet::All();
  for (const GroupName& group : kGroupNames) {
    if (plain != group.long_name &&
        plain != absl::string_view(&group.letter, 1)) {
      continue;
    }
    return CategoriesThat([&](const CategoryName& category) {
      return category.name[0] == group.letter;
    });
  }
  for (const CategoryName& category : kCategoryNames) {
    if (plain != category.name && plain != category.long_name) continue;
    return CategoriesThat(
        [&](const CategoryName& other) { return other.name == category.name; });
  }
  for (const tables::Script& script : tables::Scripts()) {
    if (plain == script.name) return SetOf(script.gaps);
  }
  return std::nullopt;
}

const CodePointSet& RegexWordSet() {
  static const CodePointSet& set =
      *new CodePointSet(SetOf(tables::OnigurumaWord()));
  return set;
}

const CodePointSet& RegexSpaceSet() {
  static const CodePointSet& set =
      *new CodePointSet(SetOf(tables::OnigurumaSpace()));
  return set;
}

void AppendLowercase(char32_t code_point, std::string* text) {
  if (code_point < 0x80) {
    text->push_back(
        absl::ascii_tolower(static_cast<unsigned char>(code_point)));
    return;
  }
  if (code_point == 0x130) {  // the only one of two code points
    AppendCodePoint('i', text);
    AppendCodePoint(0x307, text);
    return;
  }
  const absl::Span<const tables::LowercaseRun> runs = tables::Lowercase();
  const auto after = std::upper_bound(
      runs.begin(), runs.end(), static_cast<int32_t>(code_point),
      [](int32_t c, const tables::LowercaseRun& run) { return c < run.first; });
  if (after != runs.begin()) {
    const tables::LowercaseRun& run = *std::prev(after);
    const auto c = static_cast<int32_t>(code_point);
    if (c <= run.last && (c - run.first) % run.stride == 0) {
      code_point = static_cast<char32_t>(c + run.distance);
    }
  }
  AppendCodePoint(code_point, text);
}

}  // namespace castor::text
