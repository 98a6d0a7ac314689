#include "text/chat/jinja/expression_parser.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor::text::jinja {
namespace {

std::string Described(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kData:
      return "text";
    case TokenKind::kBlockBegin:
      return "\"{%\"";
    case TokenKind::kBlockEnd:
      return "\"%}\"";
    case TokenKind::kVariableBegin:
      return "\"{{\"";
    case TokenKind::kVariableEnd:
      return "\"}}\"";
    case TokenKind::kString:
      return absl::StrCat("the string ", QuotedForMessage(token.text));
    default:
      return QuotedForMessage(token.text);
  }
}

std::optional<Comparison> NextComparison(ExpressionParser* parser) {
  static constexpr std::pair<absl::string_view, Comparison> kSigns[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},    {"<=", Comparison::kLessOrEqual},
      {">", Comparison::kGreater}, {">=", Comparison::kGreaterOrEqual}};
  for (const auto& [sign, comparison] : kSigns) {
    if (parser->SkipOperator(sign)) return comparison;
  }
  if (parser->SkipName("in")) return Comparison::kIn;
  const bool is_not_in = parser->IsName("not") &&
                         parser->look().kind == TokenKind::kName &&
                         parser->look().text == "in";
  if (!is_not_in) return std::nullopt;
  parser->Skip();
  parser->Skip();
  return Comparison::kNotIn;
}

}  // namespace

struct ExpressionParser::BinarySign {
  absl::string_view sign;
  BinaryOperator op;
};

class ExpressionParser::Level {
 public:
  explicit Level(ExpressionParser* parser) : parser_(*parser) {
    ++parser_.nesting_;
  }
  ~Level() { --parser_.nesting_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  absl::Status Check() const {
    if (parser_.nesting_ <= kMaxNesting) return absl::OkStatus();
    return AtLine(parser_.line(),
                  absl::StrCat("an expression is nested deeper than ",
                               kMaxNesting, " levels"));
  }

 private:
  ExpressionParser& parser_;
};

bool IsConstantName(absl::string_view name) {
  return name == "true" || name == "True" || name == "false" ||
         name == "False" || name == "none" || name == "None";
}

bool ExpressionParser::SkipName(absl::string_view name) {
  if (!IsName(name)) return false;
  Skip();
  return true;
}

bool ExpressionParser::SkipOperator(absl::string_view op) {
  if (!IsOperator(op)) return false;
  Skip();
  return true;
}

absl::Status ExpressionParser::Unexpected(absl::string_view expected) const {
  return AtLine(line(), absl::StrCat("expected ", expected, ", found ",
                                     Described(current())));
}

absl::Status ExpressionParser::ExpectOperator(absl::string_view op) {
  if (SkipOperator(op)) return absl::OkStatus();
  return Unexpected(absl::StrCat("\"", op, "\""));
}

absl::Status ExpressionParser::Expect(TokenKind kind, absl::string_view what) {
  if (!Is(kind)) return Unexpected(what);
  Skip();
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExpressionParser::ExpectName() {
  if (!Is(TokenKind::kName)) return Unexpected("a name");
  std::string name = current().text;
  Skip();
  return name;
}

ExpressionParser::Made ExpressionParser::Make(ExpressionKind kind,
                                              int line) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  return made;
}

ExpressionParser::Result ExpressionParser::Finish(Made made) const {
  const auto add = [&](const ExpressionPtr& part) {
    if (part != nullptr) made->depth = std::max(made->depth, part->depth + 1);
  };
  for (const ExpressionPtr& item : made->items) add(item);
  for (const ExpressionPtr& item : made->arguments) add(item);
  for (const Keyword& keyword : made->keywords) add(keyword.value);
  add(made->more_arguments);
  add(made->more_keywords);
  if (made->depth > kMaxDepth) {
    return AtLine(made->line, absl::StrCat("an expression has more than ",
                                           kMaxDepth, " parts in a chain"));
  }
  return made;
}

ExpressionParser::Result ExpressionParser::Join(ExpressionKind kind, int line,
                                                ExpressionPtr left,
                                                ExpressionPtr right) const {
  Made made = Make(kind, line);
  made->items.push_back(std::move(left));
  made->items.push_back(std::move(right));
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParseExpression(
    bool with_condition) {
  const Level level(this);
  CASTOR_RETURN_IF_ERROR(level.Check());
  return with_condition ? ParseCondition() : ParseOr();
}

ExpressionParser::Result ExpressionParser::ParseCondition() {
  const Level level(this);
  CASTOR_RETURN_IF_ERROR(level.Check());
  const int at = line();
  CASTOR_ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
  while (SkipName("if")) {
    Made made = Make(ExpressionKind::kConditional, at);
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), ParseOr());
    made->items.push_back(std::move(value));
    if (SkipName("else")) {
      CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), ParseCondition());
    }
    CASTOR_ASSIGN_OR_RETURN(value, Finish(std::move(made)));
  }
  return value;
}

ExpressionParser::Result ExpressionParser::ParseOr() {
  const int at = line();
  CASTOR_ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (SkipName("or")) {
    CASTOR_ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    CASTOR_ASSIGN_OR_RETURN(
        left, Join(ExpressionKind::kOr, at, std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseAnd() {
  const int at = line();
  CASTOR_ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (SkipName("and")) {
    CASTOR_ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    CASTOR_ASSIGN_OR_RETURN(left, Join(ExpressionKind::kAnd, at,
                                       std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseNot() {
  if (!IsName("not")) return ParseCompare();
  const Level level(this);
  CASTOR_RETURN_IF_ERROR(level.Check());
  Made made = Make(ExpressionKind::kNot, line());
  Skip();
  CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), ParseNot());
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParseCompare() {
  Made made = Make(ExpressionKind::kCompare, line());
  CASTOR_ASSIGN_OR_RETURN(ExpressionPtr first, ParseSum());
  made->items.push_back(std::move(first));
  while (const std::optional<Comparison> comparison = NextComparison(this)) {
    made->comparisons.push_back(*comparison);
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), ParseSum());
  }
  if (made->comparisons.empty()) return std::move(made->items[0]);
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParseBinary(
    absl::Span<const BinarySign> signs, absl::FunctionRef<Result()> operand) {
  const int at = line();
  CASTOR_ASSIGN_OR_RETURN(ExpressionPtr left, operand());
  while (true) {
    const auto next = std::find_if(
        signs.begin(), signs.end(),
        [this](const BinarySign& sign) { return SkipOperator(sign.sign); });
    if (next == signs.end()) return left;
    Made made = Make(ExpressionKind::kBinary, at);
    made->binary = next->op;
    made->items.push_back(std::move(left));
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), operand());
    CASTOR_ASSIGN_OR_RETURN(left, Finish(std::move(made)));
  }
}

ExpressionParser::Result ExpressionParser::ParseSum() {
  static constexpr BinarySign kSigns[] = {{"+", BinaryOperator::kAdd},
                                          {"-", BinaryOperator::kSubtract}};
  return ParseBinary(kSigns, [this] { return ParseConcatenation(); });
}

ExpressionParser::Result ExpressionParser::ParseConcatenation() {
  Made made = Make(ExpressionKind::kConcatenate, line());
  do {
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), ParseProduct());
  } while (SkipOperator("~"));
  if (made->items.size() == 1) return std::move(made->items[0]);
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParseProduct() {
  static constexpr BinarySign kSigns[] = {{"*", BinaryOperator::kMultiply},
                                          {"/", BinaryOperator::kDivide},
                                          {"//", BinaryOperator::kFloorDivide},
                                          {"%", BinaryOperator::kRemainder}};
  return ParseBinary(kSigns, [this] { return ParsePower(); });
}

ExpressionParser::Result ExpressionParser::ParsePower() {
  static constexpr BinarySign kSigns[] = {{"**", BinaryOperator::kPower}};
  return ParseBinary(kSigns, [this] { return ParseUnary(); });
}

ExpressionParser::Result ExpressionParser::ParseUnary(bool with_filter) {
  const Level level(this);
  CASTOR_RETURN_IF_ERROR(level.Check());
  ExpressionPtr node;
  if (IsOperator("-") || IsOperator("+")) {
    Made made = Make(
        IsOperator("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive,
        line());
    Skip();
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(),
                            ParseUnary(/*with_filter=*/false));
    CASTOR_ASSIGN_OR_RETURN(node, Finish(std::move(made)));
  } else {
    CASTOR_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  CASTOR_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  if (with_filter) return ParseFilterExpression(std::move(node));
  return node;
}

ExpressionParser::Result ExpressionParser::ParsePrimary() {
  const Token& token = current();
  Made made = Make(ExpressionKind::kConstant, token.line);
  switch (token.kind) {
    case TokenKind::kName:
      if (token.text == "true" || token.text == "True") {
        made->value = Value::Bool(true);
      } else if (token.text == "false" || token.text == "False") {
        made->value = Value::Bool(false);
      } else if (IsConstantName(token.text)) {
        made->value = Value::None();
      } else {
        made->kind = ExpressionKind::kName;
        made->name = token.text;
      }
      Skip();
      return made;
    case TokenKind::kString:
      return ParseString();
    case TokenKind::kInteger:
      made->value = Value::Int(token.integer);
      Skip();
      return made;
    case TokenKind::kFloat:
      made->value = Value::Float(token.number);
      Skip();
      return made;
    case TokenKind::kOperator:
      if (SkipOperator("(")) {
        CASTOR_ASSIGN_OR_RETURN(
            ExpressionPtr inner,
            ParseTuple(/*with_condition=*/true, /*in_parentheses=*/true));
        CASTOR_RETURN_IF_ERROR(ExpectOperator(")"));
        return inner;
      }
      if (IsOperator("[")) return ParseList();
      if (IsOperator("{")) return ParseDict();
      break;
    default:
      break;
  }
  return Unexpected("an expression");
}

ExpressionParser::Result ExpressionParser::ParseString() {
  Made made = Make(ExpressionKind::kConstant, line());
  std::string text;
  for (; Is(TokenKind::kString); Skip()) text += current().text;
  CASTOR_ASSIGN_OR_RETURN(made->value, constants_.NewString(std::move(text)));
  return made;
}

ExpressionParser::Result ExpressionParser::ParseTuple(bool with_condition,
                                                      bool in_parentheses,
                                                      absl::string_view end) {
  Made made = Make(ExpressionKind::kTuple, line());
  bool is_tuple = false;
  const auto ends = [&] {
    return Is(TokenKind::kVariableEnd) || Is(TokenKind::kBlockEnd) ||
           IsOperator(")") || (!end.empty() && IsName(end));
  };
  while (!ends()) {
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(),
                            ParseExpression(with_condition));
    if (!SkipOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!made->items.empty()) return std::move(made->items[0]);
    if (!in_parentheses) return Unexpected("an expression");
  }
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParseList() {
  Made made = Make(ExpressionKind::kList, line());
  Skip();
  while (!SkipOperator("]")) {
    if (!made->items.empty()) {
      CASTOR_RETURN_IF_ERROR(ExpectOperator(","));
      if (SkipOperator("]")) break;
    }
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), ParseExpression());
  }
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParseDict() {
  Made made = Make(ExpressionKind::kDict, line());
  Skip();
  while (!SkipOperator("}")) {
    if (!made->items.empty()) {
      CASTOR_RETURN_IF_ERROR(ExpectOperator(","));
      if (SkipOperator("}")) break;
    }
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), ParseExpression());
    CASTOR_RETURN_IF_ERROR(ExpectOperator(":"));
    CASTOR_ASSIGN_OR_RETURN(made->items.emplace_back(), ParseExpression());
  }
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParsePostfix(ExpressionPtr node) {
  while (true) {
    if (IsOperator(".") || IsOperator("[")) {
      CASTOR_ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (IsOperator("(")) {
      CASTOR_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseFilterExpression(
    ExpressionPtr node) {
  while (true) {
    if (SkipOperator("|")) {
      CASTOR_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
    } else if (IsName("is")) {
      CASTOR_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (IsOperator("(")) {
      CASTOR_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseSubscript(ExpressionPtr node) {
  const int at = line();
  Made made = Make(ExpressionKind::kItem, at);
  made->items.push_back(std::move(node));
  if (SkipOperator(".")) {
    if (Is(TokenKind::kName)) {
      made->kind = ExpressionKind::kAttribute;
      made->name = current().text;
    } else if (Is(TokenKind::kInteger)) {
      Made index = Make(ExpressionKind::kConstant, at);
      index->value = Value::Int(current().integer);
      made->items.push_back(std::move(index));
    } else {
      return Unexpected("a name or a number");
    }
    Skip();
    return Finish(std::move(made));
  }
  Skip();
  std::vector<ExpressionPtr> bounds(1);
  if (!IsOperator(":")) {
    CASTOR_ASSIGN_OR_RETURN(bounds[0], ParseExpression());
  }
  if (IsOperator(":")) {
    made->kind = ExpressionKind::kSlice;
    while (bounds.size() < 3 && SkipOperator(":")) {
      bounds.emplace_back();
      if (IsOperator(":") || IsOperator("]")) continue;
      CASTOR_ASSIGN_OR_RETURN(bounds.back(), ParseExpression());
    }
    bounds.resize(3);
  } else if (IsOperator(",")) {
    return AtLine(at, "an index of several parts is not supported");
  }
  CASTOR_RETURN_IF_ERROR(ExpectOperator("]"));
  for (ExpressionPtr& bound : bounds) made->items.push_back(std::move(bound));
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParseCall(ExpressionPtr node) {
  Made made = Make(ExpressionKind::kCall, line());
  made->items.push_back(std::move(node));
  CASTOR_RETURN_IF_ERROR(ParseArguments(made.get()));
  return Finish(std::move(made));
}

absl::Status ExpressionParser::ParseArguments(Expression* call) {
  CASTOR_RETURN_IF_ERROR(ExpectOperator("("));
  const auto misplaced = [&] {
    return AtLine(call->line, "the arguments of a call are out of order");
  };
  bool is_first = true;
  while (!SkipOperator(")")) {
    if (!std::exchange(is_first, false)) {
      CASTOR_RETURN_IF_ERROR(ExpectOperator(","));
      if (SkipOperator(")")) break;
    }
    if (SkipOperator("*")) {
      if (call->more_arguments || call->more_keywords) return misplaced();
      CASTOR_ASSIGN_OR_RETURN(call->more_arguments, ParseExpression());
    } else if (SkipOperator("**")) {
      if (call->more_keywords) return misplaced();
      CASTOR_ASSIGN_OR_RETURN(call->more_keywords, ParseExpression());
    } else if (Is(TokenKind::kName) && look().kind == TokenKind::kOperator &&
               look().text == "=") {
      if (call->more_keywords) return misplaced();
      Keyword keyword;
      keyword.name = current().text;
      Skip();
      Skip();
      CASTOR_ASSIGN_OR_RETURN(keyword.value, ParseExpression());
      call->keywords.push_back(std::move(keyword));
    } else {
      if (call->more_arguments || call->more_keywords ||
          !call->keywords.empty()) {
        return misplaced();
      }
      CASTOR_ASSIGN_OR_RETURN(call->arguments.emplace_back(),
                              ParseExpression());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExpressionParser::ParseDottedName() {
  CASTOR_ASSIGN_OR_RETURN(std::string name, ExpectName());
  while (SkipOperator(".")) {
    CASTOR_ASSIGN_OR_RETURN(const std::string part, ExpectName());
    absl::StrAppend(&name, ".", part);
  }
  return name;
}

ExpressionParser::Result ExpressionParser::ParseFilter(ExpressionPtr node) {
  Made made = Make(ExpressionKind::kFilter, line());
  made->items.push_back(std::move(node));
  CASTOR_ASSIGN_OR_RETURN(made->name, ParseDottedName());
  made->callable = FindFilter(made->name);
  if (made->callable == nullptr || made->callable->run == nullptr) {
    return AtLine(made->line,
                  absl::StrCat("the filter ", QuotedForMessage(made->name),
                               " is not supported"));
  }
  if (IsOperator("(")) CASTOR_RETURN_IF_ERROR(ParseArguments(made.get()));
  return Finish(std::move(made));
}

ExpressionParser::Result ExpressionParser::ParseFilters(bool begins_with_name) {
  ExpressionPtr node;
  if (begins_with_name) {
    CASTOR_ASSIGN_OR_RETURN(node, ParseFilter(nullptr));
  }
  while (SkipOperator("|")) {
    CASTOR_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseTest(ExpressionPtr node) {
  Made made = Make(ExpressionKind::kTest, line());
  made->items.push_back(std::move(node));
  Skip();
  const bool is_negated = SkipName("not");
  CASTOR_ASSIGN_OR_RETURN(made->name, ParseDottedName());
  made->callable = FindTest(made->name);
  if (made->callable == nullptr || made->callable->run == nullptr) {
    return AtLine(made->line,
                  absl::StrCat("the test ", QuotedForMessage(made->name),
                               " is not supported"));
  }
  if (IsOperator("(")) {
    CASTOR_RETURN_IF_ERROR(ParseArguments(made.get()));
  } else if (((Is(TokenKind::kName) && !IsName("else") && !IsName("or") &&
               !IsName("and")) ||
              Is(TokenKind::kString) || Is(TokenKind::kInteger) ||
              Is(TokenKind::kFloat) || IsOperator("[") || IsOperator("{"))) {
    if (IsName("is")) {
      return AtLine(line(), "tests with \"is\" cannot be chained");
    }
    CASTOR_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    CASTOR_ASSIGN_OR_RETURN(made->arguments.emplace_back(),
                            ParsePostfix(std::move(argument)));
  }
  const int at = made->line;
  CASTOR_ASSIGN_OR_RETURN(ExpressionPtr test, Finish(std::move(made)));
  if (!is_negated) return test;
  Made negated = Make(ExpressionKind::kNot, at);
  negated->items.push_back(std::move(test));
  return Finish(std::move(negated));
}

}  // namespace castor::text::jinja
