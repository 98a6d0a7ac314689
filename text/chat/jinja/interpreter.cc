#include "text/chat/jinja/interpreter.h"

#include <ctime>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/characters.h"
#include "text/chat/jinja/interpreter_guards.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/python_text.h"

namespace castor::text::jinja {
namespace {

constexpr int64_t kScopeBytes = 96;

}  // namespace

absl::Status Interpreter::Run(const Body& body) {
  CASTOR_ASSIGN_OR_RETURN(Scope * scope, NewScope());
  const InScope in_scope(this, scope);
  return Execute(body).status();
}

absl::StatusOr<Scope*> Interpreter::NewScope() {
  CASTOR_RETURN_IF_ERROR(heap_.TakeBytes(kScopeBytes));
  Scope& scope = scopes_.emplace_back();
  scope.parent = scope_;
  return &scope;
}

const Value* Interpreter::FindName(absl::string_view name) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [known, value] : scope->names) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

absl::Status Interpreter::SetName(Scope* scope, absl::string_view name,
                                  const Value& value) {
  CASTOR_RETURN_IF_ERROR(heap_.Take(1 + scope->names.size() / 8));
  for (auto& [known, old] : scope->names) {
    if (known != name) continue;
    old = value;
    return absl::OkStatus();
  }
  CASTOR_RETURN_IF_ERROR(heap_.TakeBytes(sizeof(scope->names[0]) * 2));
  scope->names.emplace_back(name, value);
  return absl::OkStatus();
}

absl::Status Interpreter::AssignAttribute(const Target& target,
                                          const Value& value) {
  const Value* found = FindName(target.name);
  if (found == nullptr || !found->is(Kind::kNamespace)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot assign an attribute of ", target.name,
                     ", which is no namespace"));
  }
  if (absl::StartsWith(target.attribute, "_")) {
    return absl::InvalidArgumentError(
        absl::StrCat("a namespace keeps no attribute that begins with \"_\": ",
                     target.attribute));
  }
  CASTOR_RETURN_IF_ERROR(heap_.TakeBytes(sizeof(Value)));
  for (auto& [key, old] : found->names().items) {
    if (!key.is_string() || key.text() != target.attribute) continue;
    old = value;
    return absl::OkStatus();
  }
  CASTOR_ASSIGN_OR_RETURN(const Value key, heap_.NewString(target.attribute));
  found->names().items.emplace_back(key, value);
  return absl::OkStatus();
}

absl::Status Interpreter::Assign(const Target& target, const Value& value) {
  if (!target.is_tuple) {
    return target.attribute.empty() ? SetName(scope_, target.name, value)
                                    : AssignAttribute(target, value);
  }
  if (value.is_undefined()) return UndefinedError(value);
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(value, &heap_));
  if (items.size() != target.several.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(items.size(), " values cannot be unpacked into ",
                     target.several.size(), " names"));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    CASTOR_RETURN_IF_ERROR(Assign(target.several[i], items[i]));
  }
  return absl::OkStatus();
}

Interpreter::Result Interpreter::NewMacro(const Statement& statement) {
  for (Scope* scope = scope_; scope != nullptr && !scope->is_kept;
       scope = scope->parent) {
    scope->is_kept = true;
  }
  Function function;
  function.macro = &statement;
  function.scope = scope_;
  return heap_.NewFunction(std::move(function));
}

absl::Status Interpreter::Write(absl::string_view text) {
  CASTOR_RETURN_IF_ERROR(heap_.TakeBytes(text.size()));
  CASTOR_RETURN_IF_ERROR(heap_.TakeText(text.size()));
  out_->append(text.data(), text.size());
  return absl::OkStatus();
}

absl::StatusOr<Interpreter::Flow> Interpreter::Capture(const Body& body,
                                                       std::string* text) {
  CASTOR_ASSIGN_OR_RETURN(Scope * scope, NewScope());
  const InScope in_scope(this, scope);
  std::string* const before = std::exchange(out_, text);
  const absl::StatusOr<Flow> flow = Execute(body);
  out_ = before;
  heap_.GiveBack(text->size());
  return flow;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Execute(const Body& body) {
  const Level level(this);
  CASTOR_RETURN_IF_ERROR(level.Check());
  for (const StatementPtr& statement : body) {
    absl::StatusOr<Flow> flow = ExecuteOne(*statement);
    if (!flow.ok() && error_line_ == 0) error_line_ = statement->line;
    if (!flow.ok() || *flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteOne(
    const Statement& statement) {
  CASTOR_RETURN_IF_ERROR(heap_.Take(1));
  absl::Status status;
  switch (statement.kind) {
    case StatementKind::kText:
      status = Write(statement.name);
      break;
    case StatementKind::kOutput:
      status = ExecuteOutput(*statement.expression);
      break;
    case StatementKind::kIf:
      return ExecuteIf(statement);
    case StatementKind::kFor:
      return ExecuteFor(statement);
    case StatementKind::kSet: {
      CASTOR_ASSIGN_OR_RETURN(const Value value,
                              Evaluate(*statement.expression));
      status = Assign(statement.target, value);
      break;
    }
    case StatementKind::kSetBlock:
      return ExecuteSetBlock(statement);
    case StatementKind::kWith:
      return ExecuteWith(statement);
    case StatementKind::kMacro: {
      CASTOR_ASSIGN_OR_RETURN(const Value macro, NewMacro(statement));
      status = SetName(scope_, statement.name, macro);
      break;
    }
    case StatementKind::kCallBlock:
      status = ExecuteCallBlock(statement);
      break;
    case StatementKind::kFilter:
      return ExecuteFilter(statement);
    case StatementKind::kGeneration:
      status = ExecuteGeneration(statement);
      break;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  CASTOR_RETURN_IF_ERROR(status);
  return Flow::kOn;
}

absl::Status Interpreter::ExecuteOutput(const Expression& expression) {
  CASTOR_ASSIGN_OR_RETURN(const Value value, Evaluate(expression));
  if (value.is_string()) return Write(value.text());
  CASTOR_ASSIGN_OR_RETURN(const std::string text, Str(value, &heap_));
  return Write(text);
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteIf(
    const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(const Value test, Evaluate(*branch.condition));
      CASTOR_ASSIGN_OR_RETURN(const bool is_true, Truth(test));
      if (!is_true) continue;
    }
    return Execute(branch.body);
  }
  return Flow::kOn;
}

Interpreter::Result Interpreter::LoopItems(const Statement& statement) {
  CASTOR_ASSIGN_OR_RETURN(const Value given, Evaluate(*statement.expression));
  // Nothing changes a sequence, but a generator gives its items once.
  if (statement.condition == nullptr && given.is(Kind::kSequence) &&
      !given.is(SequenceType::kGenerator)) {
    return given;
  }
  CASTOR_ASSIGN_OR_RETURN(std::vector<Value> items, Items(given, &heap_));
  if (statement.condition == nullptr) return heap_.NewList(std::move(items));
  CASTOR_ASSIGN_OR_RETURN(Scope * scope, NewScope());
  const InScope in_scope(this, scope);
  std::vector<Value> picked;
  for (const Value& item : items) {
    CASTOR_RETURN_IF_ERROR(Assign(statement.target, item));
    CASTOR_ASSIGN_OR_RETURN(const Value test, Evaluate(*statement.condition));
    CASTOR_ASSIGN_OR_RETURN(const bool is_true, Truth(test));
    if (is_true) picked.push_back(item);
  }
  return heap_.NewList(std::move(picked));
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteFor(
    const Statement& statement) {
  CASTOR_ASSIGN_OR_RETURN(const Value sequence, LoopItems(statement));
  const std::vector<Value>& items = sequence.sequence().items;
  if (items.empty()) {
    CASTOR_ASSIGN_OR_RETURN(Scope * scope, NewScope());
    const InScope in_scope(this, scope);
    return Execute(statement.otherwise);
  }
  CASTOR_ASSIGN_OR_RETURN(Loop * loop,
                          heap_.NewLoop({&sequence.sequence(), 0, {}, false}));
  Scope* scope = nullptr;
  for (const Value& item : items) {
    if (scope == nullptr || scope->is_kept) {
      CASTOR_ASSIGN_OR_RETURN(scope, NewScope());
    }
    scope->names.clear();
    const InScope in_scope(this, scope);
    CASTOR_RETURN_IF_ERROR(
        SetName(scope, "loop", Value(static_cast<const Loop*>(loop))));
    CASTOR_RETURN_IF_ERROR(Assign(statement.target, item));
    CASTOR_ASSIGN_OR_RETURN(const Flow flow, Execute(statement.body));
    if (flow == Flow::kBreak) break;
    ++loop->index0;
  }
  return Flow::kOn;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteWith(
    const Statement& statement) {
  std::vector<Value> values;
  for (const auto& [target, expression] : statement.assignments) {
    CASTOR_ASSIGN_OR_RETURN(values.emplace_back(), Evaluate(*expression));
  }
  CASTOR_ASSIGN_OR_RETURN(Scope * scope, NewScope());
  const InScope in_scope(this, scope);
  for (size_t i = 0; i < values.size(); ++i) {
    CASTOR_RETURN_IF_ERROR(Assign(statement.assignments[i].first, values[i]));
  }
  return Execute(statement.body);
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteSetBlock(
    const Statement& statement) {
  std::string text;
  CASTOR_ASSIGN_OR_RETURN(const Flow flow, Capture(statement.body, &text));
  if (flow != Flow::kOn) return flow;
  CASTOR_ASSIGN_OR_RETURN(Value value, heap_.NewString(std::move(text)));
  if (statement.expression != nullptr) {
    block_text_ = value;
    CASTOR_ASSIGN_OR_RETURN(value, Evaluate(*statement.expression));
  }
  CASTOR_RETURN_IF_ERROR(Assign(statement.target, value));
  return Flow::kOn;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteFilter(
    const Statement& statement) {
  std::string text;
  CASTOR_ASSIGN_OR_RETURN(const Flow flow, Capture(statement.body, &text));
  if (flow != Flow::kOn) return flow;
  CASTOR_ASSIGN_OR_RETURN(block_text_, heap_.NewString(std::move(text)));
  CASTOR_RETURN_IF_ERROR(ExecuteOutput(*statement.expression));
  return Flow::kOn;
}

absl::Status Interpreter::ExecuteGeneration(const Statement& statement) {
  std::string text;
  CASTOR_RETURN_IF_ERROR(Capture(statement.body, &text).status());
  CASTOR_RETURN_IF_ERROR(heap_.TakeBytes(sizeof(GeneratedPart)));
  generated_.push_back(
      {static_cast<int64_t>(output_.size()), NumCodePoints(text)});
  return Write(text);
}

absl::Status Interpreter::ExecuteCallBlock(const Statement& statement) {
  CASTOR_ASSIGN_OR_RETURN(const Value caller, NewMacro(statement));
  caller_ = &caller;
  return ExecuteOutput(*statement.expression);
}

absl::StatusOr<std::string> Interpreter::TimeText(absl::string_view format) {
  // Python knows no zone here, and fills in microseconds itself.
  const std::string plain = absl::StrReplaceAll(
      format, {{"%%", "%%"}, {"%f", "000000"}, {"%z", ""}, {"%Z", ""}});
  if (plain.empty()) return plain;
  const std::time_t now = static_cast<std::time_t>(now_s_);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[1024];
  // The end shows whether an empty text is one.
  const size_t size =
      std::strftime(text, sizeof(text), (plain + "|").c_str(), &local);
  if (size == 0) {
    return absl::InvalidArgumentError("strftime_now: the format is too long");
  }
  return std::string(text, size - 1);
}

}  // namespace castor::text::jinja
