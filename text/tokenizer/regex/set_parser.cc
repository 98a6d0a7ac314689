#include "text/tokenizer/regex/set_parser.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/unicode/unicode_sets.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

constexpr int kMaxDepth = 16;  // of sets inside sets

bool IsOneOf(char32_t c, absl::string_view characters) {
  return c != 0 && c < 0x80 &&
         characters.find(static_cast<char>(c)) != absl::string_view::npos;
}

int HexDigit(char32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A' + 10);
  return -1;
}

// \x41, \x{1F600}, \u00e9, behind the letter.
absl::StatusOr<char32_t> ReadHex(PatternReader& reader, int most_digits,
                                 bool exactly) {
  const bool braces = most_digits == 2 && reader.Accept("{");
  const int most = braces ? 8 : most_digits;
  char32_t value = 0;
  int digits = 0;
  for (; digits < most && HexDigit(reader.Peek()) >= 0; ++digits) {
    value = value << 4 | static_cast<char32_t>(HexDigit(reader.Next()));
  }
  if (digits == 0 || (exactly && digits != most) ||
      (braces && !reader.Accept("}"))) {
    return reader.Error("expected a hexadecimal number of a character");
  }
  if (value >= kNumCodePoints || (value >= 0xd800 && value < 0xe000)) {
    return reader.Error("there is no such character");
  }
  return value;
}

// {L}, {^L}, behind \p or \P.
absl::StatusOr<CodePointSet> ReadProperty(PatternReader& reader, bool negated) {
  if (!reader.Accept("{")) return reader.Error("expected {...} behind \\p");
  if (reader.Accept("^")) negated = !negated;
  std::string name;
  while (!reader.AtEnd() && reader.Peek() != '}' && name.size() < 100) {
    AppendCodePoint(reader.Next(), &name);
  }
  if (!reader.Accept("}")) return reader.Error("\\p{ without }");
  const std::optional<CodePointSet> set = PropertySet(name);
  if (!set.has_value()) {
    return reader.Error(absl::StrCat("\\p{...} of ", QuotedForMessage(name),
                                     " is not supported; general categories "
                                     "and some scripts are"));
  }
  return negated ? set->Complement() : *set;
}

// The character that is written as `letter` behind a backslash; 0: none.
char32_t ControlCharacter(char32_t letter) {
  switch (letter) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'v':
      return '\v';
    case 'f':
      return '\f';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'e':
      return 0x1b;
    default:
      return 0;
  }
}

bool IsLetterOrDigit(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

class BracketReader {
 public:
  BracketReader(PatternReader& reader, bool ignore_case)
      : reader_(reader), ignore_case_(ignore_case) {}

  absl::StatusOr<CodePointSet> Read(int depth);

 private:
  // One character, or a set that cannot begin a range.
  absl::StatusOr<CodePointSet> ReadItem(bool is_first, int depth,
                                        char32_t* character, bool* is_set);
  absl::StatusOr<CodePointSet> ReadRange(char32_t first);

  PatternReader& reader_;
  const bool ignore_case_;
};

absl::StatusOr<CodePointSet> BracketReader::ReadItem(bool is_first, int depth,
                                                     char32_t* character,
                                                     bool* is_set) {
  *is_set = true;
  const char32_t c = reader_.Next();
  if (c == '[') {
    if (reader_.Peek() == ':') {
      return reader_.Error(
          "a POSIX bracket [:...:] is not supported; write \\p{...}");
    }
    return Read(depth + 1);
  }
  if (c == ']' && is_first) {
    return reader_.Error("an empty set, or ] at its beginning: write \\]");
  }
  if (c == '\\') {
    CASTOR_ASSIGN_OR_RETURN(std::optional<CodePointSet> set,
                            ReadEscapedSet(reader_, /*in_brackets=*/true));
    if (!set.has_value()) {
      return reader_.Error("this escape is not supported in a set");
    }
    const auto& ranges = set->ranges();
    *is_set = ranges.size() != 1 || ranges[0].end - ranges[0].begin != 1;
    if (!*is_set) *character = ranges[0].begin;
    return *std::move(set);
  }
  *is_set = false;
  *character = c;
  return CodePointSet::Of(c);
}

absl::StatusOr<CodePointSet> BracketReader::ReadRange(char32_t first) {
  reader_.Skip(1);  // -
  char32_t last = 0;
  bool is_set = false;
  CASTOR_RETURN_IF_ERROR(
      ReadItem(/*is_first=*/false, kMaxDepth, &last, &is_set).status());
  if (is_set) return reader_.Error("a range that ends in a set");
  if (last < first)
    return reader_.Error("a range whose end is before its begin");
  return CodePointSet(first, last + 1);
}

absl::StatusOr<CodePointSet> BracketReader::Read(int depth) {
  if (depth > kMaxDepth) return reader_.Error("too many sets inside sets");
  const bool negated = reader_.Accept("^");
  CodePointSet set;
  std::optional<CodePointSet> left_of_and;
  for (bool is_first = true;; is_first = false) {
    if (reader_.AtEnd()) return reader_.Error("[ without ]");
    if (!is_first && reader_.Accept("]")) break;
    if (reader_.Accept("&&")) {
      left_of_and = left_of_and.has_value() ? left_of_and->Intersection(set)
                                            : std::move(set);
      set = CodePointSet();
      continue;
    }
    char32_t first = 0;
    bool is_set = false;
    CASTOR_ASSIGN_OR_RETURN(CodePointSet item,
                            ReadItem(is_first, depth, &first, &is_set));
    // A hyphen at the end, or before a set, is one.
    if (!is_set && reader_.Peek() == '-' && reader_.Peek(1) != ']' &&
        reader_.Peek(1) != '[') {
      CASTOR_ASSIGN_OR_RETURN(item, ReadRange(first));
    }
    if (ignore_case_) {
      CASTOR_ASSIGN_OR_RETURN(item, WithBothCases(reader_, item));
    }
    set = set.Union(item);
  }
  if (left_of_and.has_value()) set = left_of_and->Intersection(set);
  return negated ? set.Complement() : set;
}

}  // namespace

bool PatternReader::Accept(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (Peek(i) != static_cast<char32_t>(text[i])) return false;
  }
  Skip(text.size());
  return true;
}

absl::Status PatternReader::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " (at character ", place_, ")"));
}

absl::StatusOr<std::optional<CodePointSet>> ReadEscapedSet(
    PatternReader& reader, bool in_brackets) {
  if (reader.AtEnd()) return reader.Error("a backslash at the end");
  const char32_t c = reader.Peek();
  if (!IsLetterOrDigit(c)) {
    reader.Skip(1);
    return CodePointSet::Of(c);
  }
  if (const char32_t control = ControlCharacter(c); control != 0) {
    reader.Skip(1);
    return CodePointSet::Of(control);
  }
  if (!IsOneOf(c, "xupPsSwWdDhH")) {
    // \0 and other octal numbers, \cX, \M-x: nobody writes them.
    return std::optional<CodePointSet>();
  }
  reader.Skip(1);
  const bool negated = IsOneOf(c, "PSWDH");
  CodePointSet set;
  switch (c) {
    case 'x':
    case 'u': {
      CASTOR_ASSIGN_OR_RETURN(
          const char32_t character,
          ReadHex(reader, c == 'x' ? 2 : 4, /*exactly=*/c == 'u'));
      return CodePointSet::Of(character);
    }
    case 'p':
    case 'P': {
      CASTOR_ASSIGN_OR_RETURN(set, ReadProperty(reader, negated));
      return set;
    }
    case 's':
    case 'S':
      set = RegexSpaceSet();
      break;
    case 'w':
    case 'W':
      set = RegexWordSet();
      break;
    case 'd':
    case 'D':
      set = *PropertySet("Nd");
      break;
    default:  // h, H
      set = CodePointSet('0', '9' + 1)
                .Union(CodePointSet('a', 'f' + 1))
                .Union(CodePointSet('A', 'F' + 1));
  }
  return negated ? set.Complement() : set;
}

absl::StatusOr<CodePointSet> ReadBrackets(PatternReader& reader,
                                          bool ignore_case) {
  return BracketReader(reader, ignore_case).Read(/*depth=*/1);
}

absl::StatusOr<CodePointSet> WithBothCases(const PatternReader& reader,
                                           const CodePointSet& set) {
  static const CodePointSet& ascii = *new CodePointSet(0, 0x80);
  CodePointSet result = set;
  if (!set.Intersection(ascii.Complement()).empty()) {
    return reader.Error("under (?i) only ASCII characters are supported");
  }
  for (char32_t c = 'a'; c <= 'z'; ++c) {
    const char32_t upper = c - 'a' + 'A';
    if (!set.Contains(c) && !set.Contains(upper)) continue;
    result = result.Union(CodePointSet::Of(c)).Union(CodePointSet::Of(upper));
    // The long s and the Kelvin sign.
    if (c == 's') result = result.Union(CodePointSet::Of(0x17f));
    if (c == 'k') result = result.Union(CodePointSet::Of(0x212a));
  }
  return result;
}

}  // namespace castor::text
