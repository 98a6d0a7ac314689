#include "text/chat/jinja/characters.h"

#include <algorithm>
#include <iterator>

#include "absl/types/span.h"
#include "text/tokenizer/unicode/code_point_set.h"
#include "text/tokenizer/unicode/unicode_sets.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text::jinja {
namespace {

// first, first + stride, ... last: each so far away from what it becomes.
struct CaseRun {
  int32_t first, last, stride, distance;
};

#include "text/chat/jinja/characters.inc"

// `several`: a code point and the three, or with a 0 two, that it becomes.
void AppendMapped(char32_t c, absl::Span<const CaseRun> runs,
                  absl::Span<const uint32_t> several, std::string* out) {
  const int32_t number = static_cast<int32_t>(c);
  const auto run = std::lower_bound(
      runs.begin(), runs.end(), number,
      [](const CaseRun& a, int32_t value) { return a.last < value; });
  if (run != runs.end() && run->first <= number &&
      (number - run->first) % run->stride == 0) {
    AppendCodePoint(c + run->distance, out);
    return;
  }
  for (size_t i = 0; c >= 0x80 && i + 3 < several.size(); i += 4) {
    if (several[i] != c) continue;
    for (size_t k = 1; k <= 3; ++k) {
      if (several[i + k] != 0) AppendCodePoint(several[i + k], out);
    }
    return;
  }
  AppendCodePoint(c, out);
}

void AppendTitle(char32_t c, std::string* out) {
  AppendMapped(c, kTitleRuns, kTitleSeveral, out);
}

// Returns true if `c` is in a set of characters.inc.
template <const auto& kGaps>
bool IsIn(char32_t c) {
  static const CodePointSet set = CodePointSet::FromGaps(kGaps);
  return set.Contains(c);
}

bool IsCased(char32_t c) { return IsIn<kCased>(c); }
bool IsCaseIgnorable(char32_t c) { return IsIn<kCaseIgnorable>(c); }

// Returns true if the capital sigma at [begin, end) ends a word (Unicode,
// section 3.13, Final_Sigma).
bool IsFinalSigma(absl::string_view text, size_t begin, size_t end) {
  const auto at = [&](size_t place) { return NextCodePoint(text, &place); };
  bool follows_letter = false;
  while (begin > 0) {
    begin = PreviousPlace(text, begin);
    const char32_t c = at(begin);
    if (IsCaseIgnorable(c)) continue;
    follows_letter = IsCased(c);
    break;
  }
  if (!follows_letter) return false;
  while (end < text.size()) {
    const char32_t c = NextCodePoint(text, &end);
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

void AppendLowerAt(absl::string_view text, size_t begin, size_t end, char32_t c,
                   std::string* out) {
  constexpr char32_t kCapitalSigma = 0x3a3, kSigma = 0x3c3, kFinalSigma = 0x3c2;
  if (c == kCapitalSigma) {
    AppendCodePoint(IsFinalSigma(text, begin, end) ? kFinalSigma : kSigma, out);
  } else {
    AppendLowercase(c, out);
  }
}

}  // namespace

bool IsAlpha(char32_t c) { return IsIn<kAlpha>(c); }
bool IsDecimal(char32_t c) { return IsIn<kDecimal>(c); }
bool IsDigit(char32_t c) { return IsIn<kDigit>(c); }
bool IsNumeric(char32_t c) { return IsIn<kNumeric>(c); }
bool IsLower(char32_t c) { return IsIn<kLowerLetters>(c); }
bool IsUpper(char32_t c) { return IsIn<kUpperLetters>(c); }
bool IsTitle(char32_t c) { return IsIn<kTitleLetters>(c); }

bool IsPrintable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  return IsIn<kPrintable>(c);
}

bool IsSpace(char32_t c) {
  return c == ' ' || (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x1f) ||
         c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool IsLineEnd(char32_t c) {
  return (c >= 0xa && c <= 0xd) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
         c == 0x2028 || c == 0x2029;
}

std::string ToLower(absl::string_view text) {
  std::string out;
  for (size_t place = 0; place < text.size();) {
    const size_t begin = place;
    const char32_t c = NextCodePoint(text, &place);
    AppendLowerAt(text, begin, place, c, &out);
  }
  return out;
}

std::string ToUpper(absl::string_view text) {
  std::string out;
  for (size_t place = 0; place < text.size();) {
    AppendMapped(NextCodePoint(text, &place), kUpperRuns, kUpperSeveral, &out);
  }
  return out;
}

std::string ToTitle(absl::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t place = 0; place < text.size();) {
    const size_t begin = place;
    const char32_t c = NextCodePoint(text, &place);
    if (in_word) {
      AppendLowerAt(text, begin, place, c, &out);
    } else {
      AppendTitle(c, &out);
    }
    in_word = IsCased(c);
  }
  return out;
}

std::string Capitalized(absl::string_view text) {
  std::string out;
  for (size_t place = 0; place < text.size();) {
    const size_t begin = place;
    const char32_t c = NextCodePoint(text, &place);
    if (begin == 0) {
      AppendTitle(c, &out);
    } else {
      AppendLowerAt(text, begin, place, c, &out);
    }
  }
  return out;
}

int64_t NumCodePoints(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return !IsUtf8Continuation(c); });
}

size_t SpaceAtBegin(absl::string_view text) {
  size_t place = 0;
  while (place < text.size()) {
    size_t next = place;
    if (!IsSpace(NextCodePoint(text, &next))) break;
    place = next;
  }
  return place;
}

size_t EndWithoutSpace(absl::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t before = PreviousPlace(text, end);
    size_t place = before;
    if (!IsSpace(NextCodePoint(text, &place))) break;
    end = before;
  }
  return end;
}

}  // namespace castor::text::jinja
