#include "text/tokenizer/regex/translate.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/tokenizer/regex/set_parser.h"
#include "text/tokenizer/unicode/unicode_sets.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

// More of them would not be told apart by a byte.
constexpr size_t kMaxKinds = 255;

// A part of the pattern in the making: syntax, or one character of a set.
struct Token {
  std::string syntax;
  std::optional<CodePointSet> set;
};

class Translator {
 public:
  explicit Translator(std::u32string pattern) : reader_(std::move(pattern)) {}

  absl::Status Read();
  absl::StatusOr<Translation> Finish() &&;

 private:
  struct Flags {
    bool ignore_case = false, dot_is_all = false;
  };
  struct Group {
    Flags outer;          // what holds again behind it
    size_t begin;         // its first token
    std::string closing;  // ")", more where (?i) opened groups inside
  };

  absl::Status ReadAtom(char32_t c);
  absl::Status ReadEscape();
  absl::Status ReadGroup();
  absl::Status ReadFlags(size_t begin);
  absl::Status ReadInterval();
  absl::Status ReadLiteral(char32_t c);
  absl::Status CloseGroup();

  void Syntax(absl::string_view text) {
    tokens_.push_back({std::string(text), {}});
  }
  void Set(CodePointSet set) { tokens_.push_back({"", std::move(set)}); }
  // One atom made of several tokens.
  void BeginAtom() {
    atom_ = tokens_.size();
    last_letter_ = 0;
  }
  void LineBegin();
  void LineEnd();
  void WordBoundary(bool negated);

  PatternReader reader_;
  std::vector<Token> tokens_;
  std::vector<Group> groups_;
  Flags flags_;
  std::string closing_;       // of groups that (?i) opened outside any
  size_t atom_ = 0;           // the first token of what a quantifier repeats
  char32_t last_letter_ = 0;  // under (?i), in lower case
};

CodePointSet Newline() { return CodePointSet::Of('\n'); }

// "^" is the beginning of the text and the place behind each newline but the
// last one.
void Translator::LineBegin() {
  BeginAtom();
  Syntax("(?:\\A|(?<=");
  Set(Newline());
  Syntax(")(?!\\z))");
}

void Translator::LineEnd() {
  BeginAtom();
  Syntax("(?=");
  Set(Newline());
  Syntax("|\\z)");
}

void Translator::WordBoundary(bool negated) {
  BeginAtom();
  Syntax("(?:(?<=");
  Set(RegexWordSet());
  Syntax(negated ? ")(?=" : ")(?!");
  Set(RegexWordSet());
  Syntax(")|(?<!");
  Set(RegexWordSet());
  Syntax(negated ? ")(?!" : ")(?=");
  Set(RegexWordSet());
  Syntax("))");
}

absl::Status Translator::ReadLiteral(char32_t c) {
  const char32_t previous = last_letter_;
  BeginAtom();
  if (!flags_.ignore_case) {
    Set(CodePointSet::Of(c));
    return absl::OkStatus();
  }
  CASTOR_ASSIGN_OR_RETURN(CodePointSet set,
                          WithBothCases(reader_, CodePointSet::Of(c)));
  Set(std::move(set));
  last_letter_ = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  // Two letters of which there is a ligature that Oniguruma takes for them.
  const std::u32string pair = {previous, last_letter_};
  if (pair == U"ss" || pair == U"st" || pair == U"ff" || pair == U"fi" ||
      pair == U"fl") {
    return reader_.Error(
        "under (?i) ss, st, ff, fi and fl also stand for one character, "
        "which is not supported");
  }
  return absl::OkStatus();
}

absl::Status Translator::ReadEscape() {
  CASTOR_ASSIGN_OR_RETURN(std::optional<CodePointSet> set,
                          ReadEscapedSet(reader_, /*in_brackets=*/false));
  if (set.has_value()) {
    const auto& ranges = set->ranges();
    if (ranges.size() == 1 && ranges[0].end - ranges[0].begin == 1) {
      return ReadLiteral(ranges[0].begin);
    }
    if (flags_.ignore_case) {
      CASTOR_ASSIGN_OR_RETURN(set, WithBothCases(reader_, *set));
    }
    BeginAtom();
    Set(*std::move(set));
    return absl::OkStatus();
  }
  const char32_t c = reader_.Next();
  switch (c) {
    case 'b':
    case 'B':
      WordBoundary(/*negated=*/c == 'B');
      return absl::OkStatus();
    case 'A':
      BeginAtom();
      Syntax("\\A");
      return absl::OkStatus();
    case 'z':
      BeginAtom();
      Syntax("\\z");
      return absl::OkStatus();
    case 'Z':
      BeginAtom();
      Syntax("(?=");
      Set(Newline());
      Syntax("?\\z)");
      return absl::OkStatus();
    default: {
      std::string name = "\\";
      AppendCodePoint(c, &name);
      return reader_.Error(absl::StrCat(name, " is not supported"));
    }
  }
}

absl::Status Translator::ReadFlags(size_t begin) {
  const Flags outer = flags_;
  bool on = true;
  while (true) {
    if (reader_.AtEnd()) return reader_.Error("( without )");
    const char32_t c = reader_.Next();
    if (c == ':' || c == ')') {
      if (c == ':') {
        groups_.push_back({outer, begin, ")"});
      } else {
        // As far as the group around goes, its alternatives included.
        (groups_.empty() ? closing_ : groups_.back().closing) += ")";
      }
      Syntax("(?:");
      return absl::OkStatus();
    }
    if (c == '-') {
      on = false;
    } else if (c == 'i') {
      flags_.ignore_case = on;
    } else if (c == 'm') {
      flags_.dot_is_all = on;
    } else {
      std::string name;
      AppendCodePoint(c, &name);
      return reader_.Error(
          absl::StrCat("a group (?", name, "...) is not supported"));
    }
  }
}

absl::Status Translator::ReadGroup() {
  BeginAtom();
  const size_t begin = tokens_.size();
  if (!reader_.Accept("?")) {
    if (reader_.Peek() == '*') return reader_.Error("(* is not supported");
    Syntax("(?:");  // nobody refers to what it matches
    groups_.push_back({flags_, begin, ")"});
    return absl::OkStatus();
  }
  if (reader_.Accept("#")) {
    while (!reader_.AtEnd() && reader_.Peek() != ')') reader_.Skip(1);
    if (!reader_.Accept(")")) return reader_.Error("(?# without )");
    return absl::OkStatus();
  }
  for (const absl::string_view head : {":", "=", "!", "<=", "<!", ">"}) {
    if (!reader_.Accept(head)) continue;
    Syntax(absl::StrCat("(?", head));
    groups_.push_back({flags_, begin, ")"});
    return absl::OkStatus();
  }
  return ReadFlags(begin);
}

absl::Status Translator::CloseGroup() {
  if (groups_.empty()) return reader_.Error(") without (");
  const Group& group = groups_.back();
  Syntax(group.closing);
  atom_ = group.begin;
  last_letter_ = 0;
  flags_ = group.outer;
  groups_.pop_back();
  return absl::OkStatus();
}

// {2,5}, behind its bracket; where it is none, the bracket is a character.
absl::Status Translator::ReadInterval() {
  const size_t start = reader_.place();
  const auto number = [this] {
    std::string digits;
    while (reader_.Peek() >= '0' && reader_.Peek() <= '9' &&
           digits.size() < 6) {
      digits.push_back(static_cast<char>(reader_.Next()));
    }
    return digits;
  };
  const std::string least = number();
  const bool has_comma = reader_.Accept(",");
  const std::string most = has_comma ? number() : least;
  if ((least.empty() && most.empty()) || !reader_.Accept("}")) {
    reader_.GoTo(start);
    return ReadLiteral('{');
  }
  Syntax(absl::StrCat("{", least.empty() ? "0" : least, has_comma ? "," : "",
                      has_comma ? most : "", "}"));
  if (reader_.Peek() == '?') {
    if (!has_comma) return reader_.Error("{n}? is not supported");
    reader_.Skip(1);
    Syntax("?");
  } else if (reader_.Peek() == '+') {
    // The plus repeats all of it, and is read next.
    tokens_.insert(tokens_.begin() + static_cast<ptrdiff_t>(atom_),
                   Token{"(?:", {}});
    Syntax(")");
  }
  last_letter_ = 0;
  return absl::OkStatus();
}

absl::Status Translator::ReadAtom(char32_t c) {
  switch (c) {
    case '\\':
      return ReadEscape();
    case '[': {
      BeginAtom();
      CASTOR_ASSIGN_OR_RETURN(CodePointSet set,
                              ReadBrackets(reader_, flags_.ignore_case));
      Set(std::move(set));
      return absl::OkStatus();
    }
    case '.':
      BeginAtom();
      Set(flags_.dot_is_all ? CodePointSet::All() : Newline().Complement());
      return absl::OkStatus();
    case '^':
      LineBegin();
      return absl::OkStatus();
    case '$':
      LineEnd();
      return absl::OkStatus();
    case '(':
      return ReadGroup();
    case ')':
      return CloseGroup();
    case '{':
      return ReadInterval();
    case '|':
      BeginAtom();
      Syntax("|");
      return absl::OkStatus();
    case '*':
    case '+':
    case '?': {
      const char text[] = {static_cast<char>(c)};
      Syntax(absl::string_view(text, 1));
      last_letter_ = 0;
      return absl::OkStatus();
    }
    default:
      return ReadLiteral(c);
  }
}

absl::Status Translator::Read() {
  while (!reader_.AtEnd()) CASTOR_RETURN_IF_ERROR(ReadAtom(reader_.Next()));
  if (!groups_.empty()) return reader_.Error("( without )");
  Syntax(closing_);
  return absl::OkStatus();
}

void AppendByte(uint8_t byte, std::string* pattern) {
  absl::StrAppend(pattern, "\\x", absl::Hex(byte, absl::kZeroPad2));
}

absl::StatusOr<Translation> Translator::Finish() && {
  // Between two places where no set begins or ends, characters are alike; and
  // so are those that belong to the same sets.
  std::vector<char32_t> places = {0};
  std::vector<const CodePointSet*> sets;
  for (const Token& token : tokens_) {
    if (!token.set.has_value()) continue;
    sets.push_back(&*token.set);
    for (const CodePointSet::Range& range : token.set->ranges()) {
      places.push_back(range.begin);
      places.push_back(range.end);
    }
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (places.back() != kNumCodePoints) places.push_back(kNumCodePoints);
  std::map<std::vector<bool>, size_t> kinds;  // by membership in the sets
  std::vector<uint8_t> kind_of(kNumCodePoints);
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    std::vector<bool> membership;
    for (const CodePointSet* set : sets) {
      membership.push_back(set->Contains(places[i]));
    }
    const size_t kind = kinds.emplace(membership, kinds.size()).first->second;
    if (kind >= kMaxKinds) {
      return absl::InvalidArgumentError(absl::StrCat(
          "it tells more than ", kMaxKinds, " kinds of characters apart"));
    }
    std::fill(kind_of.begin() + places[i], kind_of.begin() + places[i + 1],
              static_cast<uint8_t>(kind));
  }
  std::string pattern;
  size_t index = 0;  // of the set
  for (const Token& token : tokens_) {
    pattern += token.syntax;
    if (!token.set.has_value()) continue;
    std::vector<uint8_t> members;
    for (const auto& [membership, kind] : kinds) {
      if (membership[index]) members.push_back(static_cast<uint8_t>(kind));
    }
    ++index;
    if (members.empty()) {
      pattern += "[^\\x00-\\xff]";
      continue;
    }
    if (members.size() > 1) pattern += "[";
    for (const uint8_t kind : members) AppendByte(kind, &pattern);
    if (members.size() > 1) pattern += "]";
  }
  return Translation{std::move(pattern), CodePointTable(kind_of)};
}

}  // namespace

absl::StatusOr<Translation> TranslateRegex(absl::string_view pattern) {
  constexpr size_t kMaxLength = 10'000;
  if (pattern.size() > kMaxLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("longer than ", kMaxLength, " bytes"));
  }
  Translator translator(CodePoints(pattern));
  CASTOR_RETURN_IF_ERROR(translator.Read());
  return std::move(translator).Finish();
}

}  // namespace castor::text
