#include "text/tokenizer/unicode/tables.h"

namespace castor::text::tables {
namespace {

#include "text/tokenizer/unicode/tables.inc"

constexpr Script kScripts[] = {
    {"arabic", kArabic},     {"bengali", kBengali},
    {"cyrillic", kCyrillic}, {"devanagari", kDevanagari},
    {"greek", kGreek},       {"han", kHan},
    {"hangul", kHangul},     {"hebrew", kHebrew},
    {"hiragana", kHiragana}, {"katakana", kKatakana},
    {"latin", kLatin},       {"tamil", kTamil},
    {"thai", kThai},
};

}  // namespace

absl::Span<const uint32_t> Categories() { return kCategories; }
absl::Span<const uint32_t> CombiningClasses() { return kCombiningClasses; }
absl::Span<const uint32_t> OnigurumaWord() { return kOnigurumaWord; }
absl::Span<const uint32_t> OnigurumaSpace() { return kOnigurumaSpace; }
absl::Span<const uint32_t> Word() { return kWord; }
absl::Span<const uint32_t> Whitespace() { return kWhitespace; }
absl::Span<const uint32_t> Numeric() { return kNumeric; }
absl::Span<const uint32_t> Punctuation() { return kPunctuation; }
absl::Span<const uint32_t> Nonspacing() { return kNonspacing; }
absl::Span<const uint32_t> Other() { return kOther; }
absl::Span<const uint32_t> CombiningMark() { return kCombiningMark; }
absl::Span<const uint32_t> GraphemeExtend() { return kGraphemeExtend; }
absl::Span<const uint32_t> GraphemeControl() { return kGraphemeControl; }
absl::Span<const uint32_t> GraphemePrepend() { return kGraphemePrepend; }
absl::Span<const uint32_t> Pictographic() { return kPictographic; }
absl::Span<const Script> Scripts() { return kScripts; }
absl::Span<const LowercaseRun> Lowercase() { return kLowercase; }
absl::Span<const uint32_t> Canonical() { return kCanonical; }
absl::Span<const uint32_t> Compatible() { return kCompatible; }
absl::Span<const uint32_t> Compositions() { return kCompositions; }

}  // namespace castor::text::tables
