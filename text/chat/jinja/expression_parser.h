// Reads expressions, by the grammar of jinja2's parser.
#ifndef CASTOR_TEXT_CHAT_JINJA_EXPRESSION_PARSER_H_
#define CASTOR_TEXT_CHAT_JINJA_EXPRESSION_PARSER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "text/chat/jinja/heap.h"
#include "text/chat/jinja/lexer.h"
#include "text/chat/jinja/syntax.h"

namespace castor::text::jinja {

// Returns true if the name is a constant of the language: true, none, ...
bool IsConstantName(absl::string_view name);

// Has a template's tokens, and the place among them that is read next. All
// errors are InvalidArgument, with the template's line.
class ExpressionParser {
 public:
  // Expressions that nest deeper, or have longer chains, are refused, so that
  // neither reading nor evaluation takes much of the stack.
  static constexpr int kMaxNesting = 64;
  static constexpr int kMaxDepth = 256;

  // `tokens` end with kEnd. Constants go to `constants`, which must outlive
  // the tree.
  ExpressionParser(std::vector<Token> tokens, Heap* constants)
      : tokens_(std::move(tokens)), constants_(*constants) {}

  const Token& current() const { return tokens_[next_]; }
  const Token& look() const {
    return tokens_[next_ + 1 < tokens_.size() ? next_ + 1 : next_];
  }
  int line() const { return current().line; }
  void Skip() {
    if (current().kind != TokenKind::kEnd) ++next_;
  }
  bool Is(TokenKind kind) const { return current().kind == kind; }
  bool IsName(absl::string_view name) const {
    return Is(TokenKind::kName) && current().text == name;
  }
  bool IsOperator(absl::string_view op) const {
    return Is(TokenKind::kOperator) && current().text == op;
  }
  bool SkipName(absl::string_view name);
  bool SkipOperator(absl::string_view op);
  absl::Status ExpectOperator(absl::string_view op);
  absl::Status Expect(TokenKind kind, absl::string_view what);
  absl::StatusOr<std::string> ExpectName();
  absl::Status Unexpected(absl::string_view expected) const;

  absl::StatusOr<ExpressionPtr> ParseExpression(bool with_condition = true);
  // Reads an expression; several with commas between them are a tuple. `end` is
  // a name that ends it besides the tag's end and ")".
  absl::StatusOr<ExpressionPtr> ParseTuple(bool with_condition = true,
                                           bool in_parentheses = false,
                                           absl::string_view end = "");
  // Reads the filters of a block, "| name(...) | ...", or, where it begins with
  // a name, "name(...) | ...", applied to an operand that is null. Returns null
  // if there is no filter.
  absl::StatusOr<ExpressionPtr> ParseFilters(bool begins_with_name);

 private:
  using Result = absl::StatusOr<ExpressionPtr>;
  using Made = std::unique_ptr<Expression>;
  struct BinarySign;

  Made Make(ExpressionKind kind, int line) const;
  // Returns `made` with its depth. InvalidArgument: it is too deep.
  Result Finish(Made made) const;
  Result Join(ExpressionKind kind, int line, ExpressionPtr left,
              ExpressionPtr right) const;
  // Reads operands by `operand`, as long as operators of `signs` stand between
  // them, and applies the operators from the left.
  Result ParseBinary(absl::Span<const BinarySign> signs,
                     absl::FunctionRef<Result()> operand);
  Result ParseCondition();
  Result ParseOr();
  Result ParseAnd();
  Result ParseNot();
  Result ParseCompare();
  Result ParseSum();
  Result ParseConcatenation();
  Result ParseProduct();
  Result ParsePower();
  Result ParseUnary(bool with_filter = true);
  Result ParsePrimary();
  Result ParseString();
  Result ParseList();
  Result ParseDict();
  Result ParsePostfix(ExpressionPtr node);
  Result ParseFilterExpression(ExpressionPtr node);
  Result ParseSubscript(ExpressionPtr node);
  Result ParseCall(ExpressionPtr node);
  Result ParseFilter(ExpressionPtr node);
  Result ParseTest(ExpressionPtr node);
  absl::Status ParseArguments(Expression* call);
  absl::StatusOr<std::string> ParseDottedName();
  // A level of nesting for as long as it lives.
  class Level;

  const std::vector<Token> tokens_;
  Heap& constants_;
  size_t next_ = 0;
  int nesting_ = 0;
};

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_EXPRESSION_PARSER_H_
