// Evaluates an Interpreter's expressions.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/interpreter.h"
#include "text/chat/jinja/interpreter_guards.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/python_text.h"

namespace castor::text::jinja {

Interpreter::Result Interpreter::Evaluate(const Expression& expression) {
  const Level level(this);
  CASTOR_RETURN_IF_ERROR(level.Check());
  Result result = EvaluateKind(expression);
  if (!result.ok() && error_line_ == 0) error_line_ = expression.line;
  return result;
}

Interpreter::Result Interpreter::EvaluateKind(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.value;
    case ExpressionKind::kName:
      return EvaluateName(expression);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return EvaluateItems(expression);
    case ExpressionKind::kDict:
      return EvaluateDict(expression);
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive:
    case ExpressionKind::kNot:
      return EvaluateUnary(expression);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return EvaluateLogic(expression);
    case ExpressionKind::kBinary:
      return EvaluateBinary(expression);
    case ExpressionKind::kConcatenate:
      return EvaluateConcatenate(expression);
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression);
    case ExpressionKind::kConditional:
      return EvaluateConditional(expression);
    case ExpressionKind::kAttribute:
    case ExpressionKind::kItem:
    case ExpressionKind::kSlice:
      return EvaluateSubscript(expression);
    case ExpressionKind::kCall:
      return EvaluateCall(expression);
    case ExpressionKind::kFilter:
    case ExpressionKind::kTest:
      return EvaluateFilterOrTest(expression);
  }
  return Value();
}

Interpreter::Result Interpreter::EvaluateName(const Expression& expression) {
  if (const Value* found = FindName(expression.name); found != nullptr) {
    return *found;
  }
  const Callable* global = FindGlobal(expression.name);
  if (global == nullptr) {
    return heap_.NewMissing({Missing::Why::kName, expression.name, {}, {}});
  }
  if (global->run == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("jinja2's ", expression.name, " is not supported"));
  }
  Function function;
  function.callable = global;
  return heap_.NewFunction(std::move(function));
}

Interpreter::Result Interpreter::EvaluateItems(const Expression& expression) {
  std::vector<Value> items;
  items.reserve(expression.items.size());
  for (const ExpressionPtr& item : expression.items) {
    CASTOR_ASSIGN_OR_RETURN(items.emplace_back(), Evaluate(*item));
  }
  return heap_.NewSequence(expression.kind == ExpressionKind::kList
                               ? SequenceType::kList
                               : SequenceType::kTuple,
                           std::move(items));
}

Interpreter::Result Interpreter::EvaluateDict(const Expression& expression) {
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i + 1 < expression.items.size(); i += 2) {
    CASTOR_ASSIGN_OR_RETURN(const Value key, Evaluate(*expression.items[i]));
    CASTOR_ASSIGN_OR_RETURN(const Value value,
                            Evaluate(*expression.items[i + 1]));
    CASTOR_RETURN_IF_ERROR(Insert(&items, key, value, &heap_));
  }
  return heap_.NewDict(std::move(items));
}

Interpreter::Result Interpreter::EvaluateUnary(const Expression& expression) {
  CASTOR_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.items[0]));
  if (expression.kind == ExpressionKind::kNegative) return Negative(value);
  if (expression.kind == ExpressionKind::kPositive) return Positive(value);
  CASTOR_ASSIGN_OR_RETURN(const bool is_true, Truth(value));
  return Value::Bool(!is_true);
}

Interpreter::Result Interpreter::EvaluateLogic(const Expression& expression) {
  CASTOR_ASSIGN_OR_RETURN(const Value left, Evaluate(*expression.items[0]));
  CASTOR_ASSIGN_OR_RETURN(const bool is_true, Truth(left));
  if (is_true == (expression.kind == ExpressionKind::kOr)) return left;
  return Evaluate(*expression.items[1]);
}

Interpreter::Result Interpreter::EvaluateBinary(const Expression& expression) {
  CASTOR_ASSIGN_OR_RETURN(const Value left, Evaluate(*expression.items[0]));
  CASTOR_ASSIGN_OR_RETURN(const Value right, Evaluate(*expression.items[1]));
  return Binary(expression.binary, left, right, &heap_);
}

Interpreter::Result Interpreter::EvaluateConcatenate(
    const Expression& expression) {
  TextBuilder out(&heap_);
  std::vector<Value> parts;
  for (const ExpressionPtr& item : expression.items) {
    CASTOR_ASSIGN_OR_RETURN(parts.emplace_back(), Evaluate(*item));
  }
  for (const Value& part : parts) {
    CASTOR_RETURN_IF_ERROR(AppendStr(part, &heap_, &out));
  }
  return std::move(out).Make();
}

Interpreter::Result Interpreter::EvaluateCompare(const Expression& expression) {
  CASTOR_ASSIGN_OR_RETURN(Value left, Evaluate(*expression.items[0]));
  for (size_t i = 0; i < expression.comparisons.size(); ++i) {
    CASTOR_ASSIGN_OR_RETURN(const Value right,
                            Evaluate(*expression.items[i + 1]));
    CASTOR_ASSIGN_OR_RETURN(
        const bool is_true,
        Compare(expression.comparisons[i], left, right, &heap_));
    if (!is_true) return Value::Bool(false);
    left = right;
  }
  return Value::Bool(true);
}

Interpreter::Result Interpreter::EvaluateConditional(
    const Expression& expression) {
  CASTOR_ASSIGN_OR_RETURN(const Value test, Evaluate(*expression.items[0]));
  CASTOR_ASSIGN_OR_RETURN(const bool is_true, Truth(test));
  if (is_true) return Evaluate(*expression.items[1]);
  if (expression.items.size() > 2) return Evaluate(*expression.items[2]);
  return heap_.NewMissing({Missing::Why::kOther,
                           "an inline if was false, and it has no else",
                           {},
                           {}});
}

Interpreter::Result Interpreter::EvaluateSubscript(
    const Expression& expression) {
  CASTOR_ASSIGN_OR_RETURN(const Value owner, Evaluate(*expression.items[0]));
  if (expression.kind == ExpressionKind::kAttribute) {
    return Attribute(owner, expression.name, &heap_);
  }
  Value bounds[3] = {Value::None(), Value::None(), Value::None()};
  for (size_t i = 1; i < expression.items.size(); ++i) {
    if (expression.items[i] == nullptr) continue;
    CASTOR_ASSIGN_OR_RETURN(bounds[i - 1], Evaluate(*expression.items[i]));
  }
  return expression.kind == ExpressionKind::kItem
             ? Item(owner, bounds[0], &heap_)
             : Slice(owner, bounds[0], bounds[1], bounds[2], &heap_);
}

absl::Status Interpreter::EvaluateArguments(const Expression& expression,
                                            Arguments* arguments) {
  for (const ExpressionPtr& argument : expression.arguments) {
    CASTOR_ASSIGN_OR_RETURN(arguments->positional.emplace_back(),
                            Evaluate(*argument));
  }
  for (const Keyword& keyword : expression.keywords) {
    CASTOR_ASSIGN_OR_RETURN(const Value value, Evaluate(*keyword.value));
    arguments->named.emplace_back(keyword.name, value);
  }
  if (expression.more_arguments != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(const Value more,
                            Evaluate(*expression.more_arguments));
    CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                            Items(more, &heap_));
    arguments->positional.insert(arguments->positional.end(), items.begin(),
                                 items.end());
  }
  if (expression.more_keywords == nullptr) return absl::OkStatus();
  CASTOR_ASSIGN_OR_RETURN(const Value more,
                          Evaluate(*expression.more_keywords));
  if (!more.is(Kind::kDict)) {
    return absl::InvalidArgumentError(
        absl::StrCat("what follows ** must be a dict, not ", TypeName(more)));
  }
  for (const auto& [key, value] : more.dict().items) {
    if (!key.is_string()) {
      return absl::InvalidArgumentError("keywords must be strings");
    }
    arguments->named.emplace_back(std::string(key.text()), value);
  }
  return absl::OkStatus();
}

Interpreter::Result Interpreter::EvaluateCall(const Expression& expression) {
  const Value* const caller = std::exchange(caller_, nullptr);
  CASTOR_ASSIGN_OR_RETURN(const Value callee, Evaluate(*expression.items[0]));
  Arguments arguments;
  CASTOR_RETURN_IF_ERROR(EvaluateArguments(expression, &arguments));
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return Call(callee, arguments);
}

Interpreter::Result Interpreter::EvaluateFilterOrTest(
    const Expression& expression) {
  Value value = block_text_;
  if (expression.items[0] != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(value, Evaluate(*expression.items[0]));
  }
  Arguments arguments;
  CASTOR_RETURN_IF_ERROR(EvaluateArguments(expression, &arguments));
  return expression.callable->run(*this, value, arguments);
}

Interpreter::Result Interpreter::Call(const Value& callee,
                                      const Arguments& arguments) {
  if (callee.is_undefined()) return UndefinedError(callee);
  if (!callee.is(Kind::kFunction)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", TypeName(callee), "' object is not callable"));
  }
  const Function& function = callee.function();
  if (function.callable == nullptr) return CallMacro(function, arguments);
  if (function.callable->run == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the method ", TypeName(function.self), ".",
                     function.callable->name, " is not supported"));
  }
  return function.callable->run(*this, function.self, arguments);
}

Interpreter::Result Interpreter::CallMacro(const Function& function,
                                           const Arguments& arguments) {
  const Statement& macro = *function.macro;
  const std::vector<Parameter>& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("macro '", macro.name, "' takes not more than ",
                     parameters.size(), " arguments"));
  }
  const InScope at_definition(this, function.scope);
  CASTOR_ASSIGN_OR_RETURN(Scope * scope, NewScope());
  const InScope in_scope(this, scope);
  const auto position = [&](absl::string_view name) {
    return std::find_if(parameters.begin(), parameters.end(),
                        [&](const Parameter& p) { return p.name == name; }) -
           parameters.begin();
  };
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    CASTOR_RETURN_IF_ERROR(
        SetName(scope, parameters[i].name, arguments.positional[i]));
  }
  for (const auto& [name, value] : arguments.named) {
    const size_t at = position(name);
    if (at == parameters.size()) {
      if (name != "caller") {
        return absl::InvalidArgumentError(absl::StrCat(
            "macro '", macro.name, "' takes no keyword argument '", name, "'"));
      }
      CASTOR_RETURN_IF_ERROR(SetName(scope, "caller", value));
      continue;
    }
    if (at < arguments.positional.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("macro '", macro.name,
                       "' got several values for the argument '", name, "'"));
    }
    CASTOR_RETURN_IF_ERROR(SetName(scope, parameters[at].name, value));
  }
  for (size_t i = arguments.positional.size(); i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const bool is_given = std::any_of(
        scope->names.begin(), scope->names.end(),
        [&](const auto& known) { return known.first == parameter.name; });
    if (is_given) continue;
    Value value;
    if (parameter.otherwise != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(value, Evaluate(*parameter.otherwise));
    } else {
      CASTOR_ASSIGN_OR_RETURN(
          value, heap_.NewMissing({Missing::Why::kOther,
                                   absl::StrCat("parameter '", parameter.name,
                                                "' was not provided"),
                                   {},
                                   {}}));
    }
    CASTOR_RETURN_IF_ERROR(SetName(scope, parameter.name, value));
  }
  std::string text;
  CASTOR_RETURN_IF_ERROR(Capture(macro.body, &text).status());
  return heap_.NewString(std::move(text));
}

}  // namespace castor::text::jinja
