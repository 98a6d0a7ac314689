// Cuts a template into tokens, as jinja2 does with trim_blocks and
// lstrip_blocks: the line's end after a block is dropped, and so are spaces
// before a block that begins a line; "-" at a tag drops all space beside it,
// "+" none.
#ifndef CASTOR_TEXT_CHAT_JINJA_LEXER_H_
#define CASTOR_TEXT_CHAT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::text::jinja {

enum class TokenKind : uint8_t {
  kData,           // text between tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,  // of the template
};

struct Token {
  TokenKind kind;
  int line;          // from 1
  std::string text;  // of a string, its value
  int64_t integer = 0;
  double number = 0;
};

// Returns an error of a template's line.
absl::Status AtLine(int line, absl::string_view what);

// Cuts `source`, valid UTF-8, into tokens. InvalidArgument: it is no template;
// names the line.
absl::StatusOr<std::vector<Token>> Lex(absl::string_view source);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_LEXER_H_
