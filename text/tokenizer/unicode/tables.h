// The numbers of tables.inc, which make_tables.py writes.
#ifndef CASTOR_TEXT_TOKENIZER_UNICODE_TABLES_H_
#define CASTOR_TEXT_TOKENIZER_UNICODE_TABLES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor::text::tables {

// Runs of three numbers: gap, length, value.
absl::Span<const uint32_t> Categories();
absl::Span<const uint32_t> CombiningClasses();

// Sets, as CodePointSet::FromGaps takes them.
absl::Span<const uint32_t> OnigurumaWord();
absl::Span<const uint32_t> OnigurumaSpace();
absl::Span<const uint32_t> Word();
absl::Span<const uint32_t> Whitespace();
absl::Span<const uint32_t> Numeric();
absl::Span<const uint32_t> Punctuation();
absl::Span<const uint32_t> Nonspacing();
absl::Span<const uint32_t> Other();
absl::Span<const uint32_t> CombiningMark();
absl::Span<const uint32_t> GraphemeExtend();
absl::Span<const uint32_t> GraphemeControl();
absl::Span<const uint32_t> GraphemePrepend();
absl::Span<const uint32_t> Pictographic();

struct Script {
  absl::string_view name;  // in lower case
  absl::Span<const uint32_t> gaps;
};
absl::Span<const Script> Scripts();

// first, first + stride, ... last: each that much away from its lower case.
struct LowercaseRun {
  int32_t first, last, stride, distance;
};
absl::Span<const LowercaseRun> Lowercase();

// Entries: distance from the code point before, count, code points.
absl::Span<const uint32_t> Canonical();
absl::Span<const uint32_t> Compatible();
// Entries of three: the composite's distance from the one before, first,
// second.
absl::Span<const uint32_t> Compositions();

}  // namespace castor::text::tables

#endif  // CASTOR_TEXT_TOKENIZER_UNICODE_TABLES_H_
