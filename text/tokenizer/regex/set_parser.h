// The parts of a regular expression that stand for one character out of a set.
#ifndef CASTOR_TEXT_TOKENIZER_REGEX_SET_PARSER_H_
#define CASTOR_TEXT_TOKENIZER_REGEX_SET_PARSER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/unicode/code_point_set.h"

namespace castor::text {

// A place in a pattern that is read from left to right.
class PatternReader {
 public:
  explicit PatternReader(std::u32string pattern)
      : pattern_(std::move(pattern)) {}

  bool AtEnd() const { return place_ == pattern_.size(); }
  // Returns the next character; 0 behind the end.
  char32_t Peek(size_t ahead = 0) const {
    return place_ + ahead < pattern_.size() ? pattern_[place_ + ahead] : 0;
  }
  char32_t Next() { return pattern_[place_++]; }
  void Skip(size_t count) { place_ += count; }
  // Reads `text` if it comes next.
  bool Accept(absl::string_view text);
  size_t place() const { return place_; }
  void GoTo(size_t place) { place_ = place; }
  // Returns InvalidArgument: `what`, at the character read last.
  absl::Status Error(absl::string_view what) const;

 private:
  std::u32string pattern_;
  size_t place_ = 0;
};

// Reads the set of characters that an escape means, behind its backslash: \n,
// \., \x41, \p{L}, \s, ... None: it is another kind of escape, and nothing was
// read.
absl::StatusOr<std::optional<CodePointSet>> ReadEscapedSet(
    PatternReader& reader, bool in_brackets);

// Reads [...], behind its first bracket.
absl::StatusOr<CodePointSet> ReadBrackets(PatternReader& reader,
                                          bool ignore_case);

// Returns `set` with the other cases of its letters, under (?i).
// InvalidArgument: it has some, but not all, of the characters outside ASCII.
absl::StatusOr<CodePointSet> WithBothCases(const PatternReader& reader,
                                           const CodePointSet& set);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_REGEX_SET_PARSER_H_
