// Sets of code points, and tables that give each code point one of 256 kinds.
#ifndef CASTOR_TEXT_TOKENIZER_UNICODE_CODE_POINT_SET_H_
#define CASTOR_TEXT_TOKENIZER_UNICODE_CODE_POINT_SET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {

// Immutable but for assignment. Each operation costs the number of ranges.
class CodePointSet {
 public:
  struct Range {
    char32_t begin, end;  // [begin, end)
  };

  CodePointSet() = default;
  CodePointSet(char32_t begin, char32_t end);
  static CodePointSet Of(char32_t code_point) {
    return CodePointSet(code_point, code_point + 1);
  }
  static CodePointSet All() { return CodePointSet(0, kNumCodePoints); }
  // Ranges as (gap, length) pairs, a gap counted from the end of the range
  // before it: the form of tables.inc.
  static CodePointSet FromGaps(absl::Span<const uint32_t> gaps);

  bool Contains(char32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  // The ranges in order; none is empty, and none touch.
  const std::vector<Range>& ranges() const { return ranges_; }

  CodePointSet Union(const CodePointSet& other) const;
  CodePointSet Intersection(const CodePointSet& other) const;
  CodePointSet Complement() const;

 private:
  std::vector<Range> ranges_;
};

// A number below 256 for each code point, in some tens of KB.
class CodePointTable {
 public:
  // Makes a table in which code point c has the number values[c].
  explicit CodePointTable(const std::vector<uint8_t>& values);

  uint8_t operator[](char32_t code_point) const {
    return blocks_[size_t{block_of_[code_point >> 8]} << 8 |
                   (code_point & 0xff)];
  }

 private:
  std::array<uint16_t, kNumCodePoints / 256> block_of_;
  std::vector<uint8_t> blocks_;  // each different 256 of the values once
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_UNICODE_CODE_POINT_SET_H_
