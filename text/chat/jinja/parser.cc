#include "text/chat/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/chat/jinja/expression_parser.h"
#include "text/chat/jinja/lexer.h"

namespace castor::text::jinja {
namespace {

constexpr int kMaxTagNesting = 64;

class Parser {
 public:
  Parser(std::vector<Token> tokens, Heap* constants)
      : in_(std::move(tokens), constants) {}

  // Reads all that comes before a tag of one of these names, which is read
  // next; or before the end, if no names are given.
  absl::StatusOr<Body> ParseBody(std::initializer_list<absl::string_view> ends);

 private:
  using Made = std::unique_ptr<Statement>;

  // Reads the rest of a tag, and what follows until one of `ends`, which is
  // passed over if it is the only one.
  absl::StatusOr<Body> ParseBlock(
      std::initializer_list<absl::string_view> ends);
  // Does the same for a body that is outside of all loops.
  absl::StatusOr<Body> ParseOutsideLoops(absl::string_view end);
  absl::StatusOr<StatementPtr> ParseTag();
  absl::StatusOr<StatementPtr> ParseIf(Made made);
  absl::StatusOr<StatementPtr> ParseFor(Made made);
  absl::StatusOr<StatementPtr> ParseSet(Made made);
  absl::StatusOr<StatementPtr> ParseWith(Made made);
  absl::StatusOr<StatementPtr> ParseMacro(Made made);
  absl::StatusOr<StatementPtr> ParseCallBlock(Made made);
  absl::StatusOr<StatementPtr> ParseFilterBlock(Made made);
  absl::StatusOr<Target> ParseTarget(bool with_namespace);
  absl::StatusOr<Target> ParseOneTarget(bool with_namespace);
  absl::StatusOr<std::string> ParseTargetName();
  absl::Status ParseSignature(std::vector<Parameter>* parameters);

  ExpressionParser in_;
  int nesting_ = 0;
  int loops_ = 0;  // that the tag stands in
};

absl::StatusOr<Body> Parser::ParseBody(
    std::initializer_list<absl::string_view> ends) {
  if (nesting_ >= kMaxTagNesting) {
    return AtLine(in_.line(), absl::StrCat("tags are nested deeper than ",
                                           kMaxTagNesting, " levels"));
  }
  ++nesting_;
  Body body;
  while (!in_.Is(TokenKind::kEnd)) {
    auto made = std::make_unique<Statement>();
    made->line = in_.line();
    if (in_.Is(TokenKind::kData)) {
      made->kind = StatementKind::kText;
      made->name = in_.current().text;
      in_.Skip();
      body.push_back(std::move(made));
      continue;
    }
    if (in_.Is(TokenKind::kVariableBegin)) {
      in_.Skip();
      made->kind = StatementKind::kOutput;
      CASTOR_ASSIGN_OR_RETURN(made->expression, in_.ParseTuple());
      CASTOR_RETURN_IF_ERROR(in_.Expect(TokenKind::kVariableEnd, "\"}}\""));
      body.push_back(std::move(made));
      continue;
    }
    CASTOR_RETURN_IF_ERROR(in_.Expect(TokenKind::kBlockBegin, "a tag"));
    if (std::any_of(ends.begin(), ends.end(), [this](absl::string_view end) {
          return in_.IsName(end);
        })) {
      --nesting_;
      return body;
    }
    CASTOR_ASSIGN_OR_RETURN(body.emplace_back(), ParseTag());
    CASTOR_RETURN_IF_ERROR(in_.Expect(TokenKind::kBlockEnd, "\"%}\""));
  }
  if (ends.size() > 0) {
    return in_.Unexpected(
        absl::StrCat("the tag ", absl::StrJoin(ends, " or ")));
  }
  --nesting_;
  return body;
}

absl::StatusOr<Body> Parser::ParseBlock(
    std::initializer_list<absl::string_view> ends) {
  in_.SkipOperator(":");
  CASTOR_RETURN_IF_ERROR(in_.Expect(TokenKind::kBlockEnd, "\"%}\""));
  CASTOR_ASSIGN_OR_RETURN(Body body, ParseBody(ends));
  if (ends.size() == 1) in_.Skip();
  return body;
}

absl::StatusOr<Body> Parser::ParseOutsideLoops(absl::string_view end) {
  const int loops = std::exchange(loops_, 0);
  CASTOR_ASSIGN_OR_RETURN(Body body, ParseBlock({end}));
  loops_ = loops;
  return body;
}

absl::StatusOr<StatementPtr> Parser::ParseTag() {
  auto made = std::make_unique<Statement>();
  made->line = in_.line();
  if (!in_.Is(TokenKind::kName)) return in_.Unexpected("a tag's name");
  const std::string name = in_.current().text;
  in_.Skip();
  if (name == "if") return ParseIf(std::move(made));
  if (name == "for") return ParseFor(std::move(made));
  if (name == "set") return ParseSet(std::move(made));
  if (name == "with") return ParseWith(std::move(made));
  if (name == "macro") return ParseMacro(std::move(made));
  if (name == "call") return ParseCallBlock(std::move(made));
  if (name == "filter") return ParseFilterBlock(std::move(made));
  if (name == "generation") {
    made->kind = StatementKind::kGeneration;
    CASTOR_ASSIGN_OR_RETURN(made->body, ParseOutsideLoops("endgeneration"));
    return made;
  }
  if (name == "break" || name == "continue") {
    made->kind =
        name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
    if (loops_ == 0) {
      return AtLine(made->line,
                    absl::StrCat("{% ", name, " %} stands in no loop"));
    }
    return made;
  }
  return AtLine(made->line, absl::StrCat("the tag ", QuotedForMessage(name),
                                         " is not supported"));
}

absl::StatusOr<StatementPtr> Parser::ParseIf(Made made) {
  made->kind = StatementKind::kIf;
  while (true) {
    Branch branch;
    CASTOR_ASSIGN_OR_RETURN(branch.condition,
                            in_.ParseTuple(/*with_condition=*/false));
    CASTOR_ASSIGN_OR_RETURN(branch.body, ParseBlock({"elif", "else", "endif"}));
    made->branches.push_back(std::move(branch));
    if (in_.SkipName("elif")) continue;
    if (in_.SkipName("else")) {
      Branch last;
      CASTOR_ASSIGN_OR_RETURN(last.body, ParseBlock({"endif"}));
      made->branches.push_back(std::move(last));
      return made;
    }
    in_.Skip();
    return made;
  }
}

absl::StatusOr<StatementPtr> Parser::ParseFor(Made made) {
  made->kind = StatementKind::kFor;
  CASTOR_ASSIGN_OR_RETURN(made->target, ParseTarget(/*with_namespace=*/false));
  if (!in_.SkipName("in")) return in_.Unexpected("\"in\"");
  CASTOR_ASSIGN_OR_RETURN(
      made->expression,
      in_.ParseTuple(/*with_condition=*/false, /*in_parentheses=*/false,
                     /*end=*/"recursive"));
  if (in_.SkipName("if")) {
    CASTOR_ASSIGN_OR_RETURN(made->condition, in_.ParseExpression());
  }
  if (in_.IsName("recursive")) {
    return AtLine(made->line, "a loop that is \"recursive\" is not supported");
  }
  ++loops_;
  CASTOR_ASSIGN_OR_RETURN(made->body, ParseBlock({"endfor", "else"}));
  --loops_;
  if (in_.SkipName("else")) {
    CASTOR_ASSIGN_OR_RETURN(made->otherwise, ParseBlock({"endfor"}));
  } else {
    in_.Skip();
  }
  return made;
}

absl::StatusOr<std::string> Parser::ParseTargetName() {
  const int line = in_.line();
  CASTOR_ASSIGN_OR_RETURN(std::string name, in_.ExpectName());
  if (IsConstantName(name)) {
    return AtLine(line, absl::StrCat("nothing can be assigned to ", name));
  }
  return name;
}

absl::StatusOr<Target> Parser::ParseOneTarget(bool with_namespace) {
  if (in_.SkipOperator("(")) {
    CASTOR_ASSIGN_OR_RETURN(Target inner, ParseTarget(with_namespace));
    CASTOR_RETURN_IF_ERROR(in_.ExpectOperator(")"));
    return inner;
  }
  Target target;
  CASTOR_ASSIGN_OR_RETURN(target.name, ParseTargetName());
  if (with_namespace && in_.SkipOperator(".")) {
    CASTOR_ASSIGN_OR_RETURN(target.attribute, in_.ExpectName());
  }
  return target;
}

absl::StatusOr<Target> Parser::ParseTarget(bool with_namespace) {
  if (nesting_ >= kMaxTagNesting) {
    return AtLine(in_.line(), "targets are nested too deep");
  }
  ++nesting_;
  Target all;
  CASTOR_ASSIGN_OR_RETURN(Target first, ParseOneTarget(with_namespace));
  all.several.push_back(std::move(first));
  while (in_.SkipOperator(",")) {
    all.is_tuple = true;
    if (in_.IsName("in") || in_.IsOperator(")") || in_.IsOperator("=") ||
        in_.Is(TokenKind::kBlockEnd)) {
      break;
    }
    CASTOR_ASSIGN_OR_RETURN(Target next, ParseOneTarget(with_namespace));
    all.several.push_back(std::move(next));
  }
  --nesting_;
  if (!all.is_tuple) return std::move(all.several[0]);
  return all;
}

absl::StatusOr<StatementPtr> Parser::ParseSet(Made made) {
  CASTOR_ASSIGN_OR_RETURN(made->target, ParseTarget(/*with_namespace=*/true));
  if (in_.SkipOperator("=")) {
    made->kind = StatementKind::kSet;
    CASTOR_ASSIGN_OR_RETURN(made->expression, in_.ParseTuple());
    return made;
  }
  made->kind = StatementKind::kSetBlock;
  CASTOR_ASSIGN_OR_RETURN(made->expression,
                          in_.ParseFilters(/*begins_with_name=*/false));
  CASTOR_ASSIGN_OR_RETURN(made->body, ParseBlock({"endset"}));
  return made;
}

absl::StatusOr<StatementPtr> Parser::ParseWith(Made made) {
  made->kind = StatementKind::kWith;
  while (!in_.Is(TokenKind::kBlockEnd)) {
    if (!made->assignments.empty()) {
      CASTOR_RETURN_IF_ERROR(in_.ExpectOperator(","));
    }
    std::pair<Target, ExpressionPtr> assignment;
    CASTOR_ASSIGN_OR_RETURN(assignment.first,
                            ParseOneTarget(/*with_namespace=*/false));
    CASTOR_RETURN_IF_ERROR(in_.ExpectOperator("="));
    CASTOR_ASSIGN_OR_RETURN(assignment.second, in_.ParseExpression());
    made->assignments.push_back(std::move(assignment));
  }
  CASTOR_ASSIGN_OR_RETURN(made->body, ParseBlock({"endwith"}));
  return made;
}

absl::Status Parser::ParseSignature(std::vector<Parameter>* parameters) {
  CASTOR_RETURN_IF_ERROR(in_.ExpectOperator("("));
  while (!in_.SkipOperator(")")) {
    if (!parameters->empty()) {
      CASTOR_RETURN_IF_ERROR(in_.ExpectOperator(","));
    }
    Parameter parameter;
    CASTOR_ASSIGN_OR_RETURN(parameter.name, ParseTargetName());
    if (in_.SkipOperator("=")) {
      CASTOR_ASSIGN_OR_RETURN(parameter.otherwise, in_.ParseExpression());
    } else if (!parameters->empty() &&
               parameters->back().otherwise != nullptr) {
      return AtLine(in_.line(),
                    absl::StrCat("the parameter ", parameter.name,
                                 " has no default, and one before it has"));
    }
    parameters->push_back(std::move(parameter));
  }
  return absl::OkStatus();
}

absl::StatusOr<StatementPtr> Parser::ParseMacro(Made made) {
  made->kind = StatementKind::kMacro;
  CASTOR_ASSIGN_OR_RETURN(made->name, ParseTargetName());
  CASTOR_RETURN_IF_ERROR(ParseSignature(&made->parameters));
  CASTOR_ASSIGN_OR_RETURN(made->body, ParseOutsideLoops("endmacro"));
  return made;
}

absl::StatusOr<StatementPtr> Parser::ParseCallBlock(Made made) {
  made->kind = StatementKind::kCallBlock;
  made->name = "caller";
  if (in_.IsOperator("(")) {
    CASTOR_RETURN_IF_ERROR(ParseSignature(&made->parameters));
  }
  CASTOR_ASSIGN_OR_RETURN(made->expression, in_.ParseExpression());
  if (made->expression->kind != ExpressionKind::kCall) {
    return AtLine(made->line, "{% call %} expects a call");
  }
  CASTOR_ASSIGN_OR_RETURN(made->body, ParseOutsideLoops("endcall"));
  return made;
}

absl::StatusOr<StatementPtr> Parser::ParseFilterBlock(Made made) {
  made->kind = StatementKind::kFilter;
  CASTOR_ASSIGN_OR_RETURN(made->expression,
                          in_.ParseFilters(/*begins_with_name=*/true));
  CASTOR_ASSIGN_OR_RETURN(made->body, ParseBlock({"endfilter"}));
  return made;
}

}  // namespace

absl::StatusOr<Body> ParseTemplate(absl::string_view source, Heap* constants) {
  CASTOR_ASSIGN_OR_RETURN(std::vector<Token> tokens, Lex(source));
  return Parser(std::move(tokens), constants).ParseBody({});
}

}  // namespace castor::text::jinja
