#include "text/chat/jinja/lexer.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/chat/jinja/characters.h"
#include "text/chat/jinja/string_literal.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text::jinja {
namespace {

// A line ends with "\n", and the last one with nothing.
std::string WithPlainLineEnds(absl::string_view source) {
  std::string text =
      absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
  if (absl::EndsWith(text, "\n")) text.pop_back();
  return text;
}

bool IsNameByte(char c) { return absl::ascii_isalnum(c) || c == '_'; }

class Lexer {
 public:
  explicit Lexer(absl::string_view source)
      : source_(WithPlainLineEnds(source)) {}

  absl::StatusOr<std::vector<Token>> Run();

 private:
  char At(size_t place) const {
    return place < source_.size() ? source_[place] : '\0';
  }
  absl::string_view Rest() const {
    return absl::string_view(source_).substr(place_);
  }
  // Moves on, counting lines.
  void MoveTo(size_t place) {
    for (; place_ < place; ++place_) line_ += source_[place_] == '\n' ? 1 : 0;
  }
  void MoveBehind(size_t place) {
    MoveTo(place);
    begins_line_ = place > 0 && source_[place - 1] == '\n';
  }
  size_t BehindSpace(size_t place) const {
    return place + SpaceAtBegin(absl::string_view(source_).substr(place));
  }
  void Add(TokenKind kind, std::string text = "") {
    tokens_.push_back({kind, line_, std::move(text)});
  }

  // Adds the text from here to `end`, where a tag begins with `sign`.
  void AddData(size_t end, char sign, bool is_variable);
  absl::Status SkipComment();
  // Returns true if a tag {% raw %} begins here, and then adds its content.
  absl::StatusOr<bool> AddRaw();
  // Returns true if the tag ends here, and sets *behind to its end; `end` is
  // "%}" or "}}".
  bool EndsTag(absl::string_view end, size_t place, size_t* behind) const;
  absl::Status AddTag(bool is_variable);
  absl::Status AddNumber();
  absl::Status AddString();
  absl::Status AddOperator();

  const std::string source_;
  size_t place_ = 0;
  int line_ = 1;
  bool begins_line_ = true;
  std::string open_;  // brackets of this tag
  std::vector<Token> tokens_;
};

void Lexer::AddData(size_t end, char sign, bool is_variable) {
  absl::string_view text = Rest().substr(0, end - place_);
  if (sign == '-') {
    text = text.substr(0, EndWithoutSpace(text));
  } else if (sign != '+' && !is_variable) {
    const size_t last = text.rfind('\n');
    const size_t begin = last == absl::string_view::npos ? 0 : last + 1;
    if ((begin > 0 || begins_line_) &&
        SpaceAtBegin(text.substr(begin)) == text.size() - begin) {
      text = text.substr(0, begin);
    }
  }
  if (!text.empty()) Add(TokenKind::kData, std::string(text));
  MoveTo(end);
}

absl::Status Lexer::SkipComment() {
  const size_t begin = place_;
  const size_t end = source_.find("#}", begin);
  if (end == std::string::npos) {
    return AtLine(line_, "a comment has no end");
  }
  size_t behind = end + 2;
  const char sign = end > begin ? source_[end - 1] : '\0';
  if (sign == '-') {
    behind = BehindSpace(behind);
  } else if (sign != '+' && At(behind) == '\n') {
    ++behind;
  }
  MoveBehind(behind);
  return absl::OkStatus();
}

bool Lexer::EndsTag(absl::string_view end, size_t place, size_t* behind) const {
  const absl::string_view rest = absl::string_view(source_).substr(place);
  const bool is_variable = end == "}}";
  if (absl::StartsWith(rest, end)) {
    *behind = place + 2;
    if (!is_variable && At(*behind) == '\n') ++*behind;
    return true;
  }
  if (rest.empty() || !absl::StartsWith(rest.substr(1), end)) return false;
  if (rest[0] == '-') {
    *behind = BehindSpace(place + 3);
    return true;
  }
  *behind = place + 3;
  return rest[0] == '+' && !is_variable;
}

absl::StatusOr<bool> Lexer::AddRaw() {
  // The rest of {%- raw -%}, where a tag's sign has been looked at.
  const auto word_at = [this](size_t place, absl::string_view word) {
    place = BehindSpace(place);
    if (!absl::StartsWith(absl::string_view(source_).substr(place), word)) {
      return std::string::npos;
    }
    return BehindSpace(place + word.size());
  };
  const auto behind_sign = [this](size_t place) {
    return At(place) == '-' || At(place) == '+' ? place + 1 : place;
  };
  size_t begin = word_at(behind_sign(place_ + 2), "raw");
  if (begin == std::string::npos) return false;
  const absl::string_view rest = absl::string_view(source_).substr(begin);
  if (absl::StartsWith(rest, "-%}")) {
    begin = BehindSpace(begin + 3);
  } else if (absl::StartsWith(rest, "%}")) {
    begin += 2;
  } else {
    return false;
  }
  const int line = line_;
  MoveBehind(begin);
  for (size_t tag = source_.find("{%", begin); tag != std::string::npos;
       tag = source_.find("{%", tag + 1)) {
    const size_t end = word_at(behind_sign(tag + 2), "endraw");
    size_t behind = 0;
    if (end == std::string::npos || !EndsTag("%}", end, &behind)) continue;
    AddData(tag, At(tag + 2), /*is_variable=*/false);
    MoveBehind(behind);
    return true;
  }
  return AtLine(line, "{% raw %} has no {% endraw %}");
}

absl::Status Lexer::AddNumber() {
  const size_t begin = place_;
  size_t end = begin;
  const auto take = [&](auto is_digit) {
    while (is_digit(At(end)) || (At(end) == '_' && is_digit(At(end + 1)))) {
      ++end;
    }
  };
  const auto is_digit = [](char c) { return absl::ascii_isdigit(c); };
  const char kind = absl::ascii_tolower(At(begin + 1));
  int base = 10;
  if (At(begin) == '0' && (kind == 'b' || kind == 'o' || kind == 'x')) {
    base = kind == 'b' ? 2 : kind == 'o' ? 8 : 16;
    end += 2;
    take([&](char c) {
      return base == 16 ? absl::ascii_isxdigit(c) : c >= '0' && c < '0' + base;
    });
  } else {
    take(is_digit);
    const size_t whole = end;
    const bool follows_dot = begin > 0 && source_[begin - 1] == '.';
    if (!follows_dot && At(end) == '.' && is_digit(At(end + 1))) {
      ++end;
      take(is_digit);
    }
    if (!follows_dot && (At(end) == 'e' || At(end) == 'E')) {
      const size_t digits =
          At(end + 1) == '+' || At(end + 1) == '-' ? end + 2 : end + 1;
      if (is_digit(At(digits))) {
        end = digits;
        take(is_digit);
      }
    }
    if (end > whole) {
      const std::string text =
          absl::StrReplaceAll(source_.substr(begin, end - begin), {{"_", ""}});
      tokens_.push_back({TokenKind::kFloat, line_, text, 0,
                         std::strtod(text.c_str(), nullptr)});
      MoveTo(end);
      return absl::OkStatus();
    }
    if (At(begin) == '0') {  // of 012 this is the 0
      end = begin + 1;
      while (At(end) == '0') ++end;
    }
  }
  const std::string text =
      absl::StrReplaceAll(source_.substr(begin, end - begin), {{"_", ""}});
  int64_t value = 0;
  for (size_t i = base == 10 ? 0 : 2; i < text.size(); ++i) {
    const int digit = absl::ascii_isdigit(text[i])
                          ? text[i] - '0'
                          : absl::ascii_tolower(text[i]) - 'a' + 10;
    if (__builtin_mul_overflow(value, int64_t{base}, &value) ||
        __builtin_add_overflow(value, int64_t{digit}, &value)) {
      return AtLine(
          line_, absl::StrCat("the integer ", text, " has more than 64 bits"));
    }
  }
  tokens_.push_back({TokenKind::kInteger, line_, text, value});
  MoveTo(end);
  return absl::OkStatus();
}

absl::Status Lexer::AddString() {
  const char quote = source_[place_];
  size_t end = place_ + 1;
  while (end < source_.size() && source_[end] != quote) {
    end += source_[end] == '\\' ? 2 : 1;
  }
  if (end >= source_.size()) return AtLine(line_, "a string has no end");
  absl::StatusOr<std::string> text =
      UnescapeString(Rest().substr(1, end - place_ - 1));
  if (!text.ok()) return AtLine(line_, text.status().message());
  Add(TokenKind::kString, *std::move(text));
  MoveTo(end + 1);
  return absl::OkStatus();
}

absl::Status Lexer::AddOperator() {
  static constexpr absl::string_view kOperators[] = {
      "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
  for (const absl::string_view op : kOperators) {
    if (!absl::StartsWith(Rest(), op)) continue;
    if (op == "(" || op == "[" || op == "{") {
      open_ += op == "(" ? ')' : op == "[" ? ']' : '}';
    } else if (op == ")" || op == "]" || op == "}") {
      if (open_.empty() || open_.back() != op[0]) {
        return AtLine(line_, absl::StrCat("unexpected '", op, "'"));
      }
      open_.pop_back();
    }
    Add(TokenKind::kOperator, std::string(op));
    MoveTo(place_ + op.size());
    return absl::OkStatus();
  }
  return AtLine(line_, absl::StrCat("unexpected character ",
                                    QuotedForMessage(Rest().substr(
                                        0, Utf8Length(source_[place_])))));
}

absl::Status Lexer::AddTag(bool is_variable) {
  const absl::string_view end = is_variable ? "}}" : "%}";
  Add(is_variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin);
  const int line = line_;
  const char sign = At(place_ + 2);
  MoveTo(place_ + (sign == '-' || sign == '+' ? 3 : 2));
  open_.clear();
  while (place_ < source_.size()) {
    size_t behind = 0;
    if (open_.empty() && EndsTag(end, place_, &behind)) {
      Add(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd);
      MoveBehind(behind);
      return absl::OkStatus();
    }
    const char c = source_[place_];
    if (const size_t space = BehindSpace(place_); space > place_) {
      MoveTo(space);
    } else if (absl::ascii_isdigit(c)) {
      CASTOR_RETURN_IF_ERROR(AddNumber());
    } else if (IsNameByte(c)) {
      size_t name_end = place_;
      while (IsNameByte(At(name_end))) ++name_end;
      Add(TokenKind::kName, source_.substr(place_, name_end - place_));
      MoveTo(name_end);
    } else if (c == '"' || c == '\'') {
      CASTOR_RETURN_IF_ERROR(AddString());
    } else {
      CASTOR_RETURN_IF_ERROR(AddOperator());
    }
  }
  return AtLine(line, absl::StrCat("a tag has no end \"", end, "\""));
}

absl::StatusOr<std::vector<Token>> Lexer::Run() {
  while (place_ < source_.size()) {
    size_t tag = source_.find('{', place_);
    while (tag != std::string::npos && At(tag + 1) != '{' &&
           At(tag + 1) != '%' && At(tag + 1) != '#') {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string::npos) {
      Add(TokenKind::kData, source_.substr(place_));
      MoveTo(source_.size());
      break;
    }
    const char kind = source_[tag + 1];
    AddData(tag, At(tag + 2), /*is_variable=*/kind == '{');
    if (kind == '#') {
      const char sign = At(tag + 2);
      MoveTo(tag + (sign == '-' || sign == '+' ? 3 : 2));
      CASTOR_RETURN_IF_ERROR(SkipComment());
      continue;
    }
    if (kind == '%') {
      CASTOR_ASSIGN_OR_RETURN(const bool is_raw, AddRaw());
      if (is_raw) continue;
    }
    CASTOR_RETURN_IF_ERROR(AddTag(/*is_variable=*/kind == '{'));
  }
  Add(TokenKind::kEnd);
  return std::move(tokens_);
}

}  // namespace

absl::Status AtLine(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

absl::StatusOr<std::vector<Token>> Lex(absl::string_view source) {
  return Lexer(source).Run();
}

}  // namespace castor::text::jinja
