// Renders a template's tree.
//
// Names are looked up in scopes, from the innermost outwards: a loop's body, a
// macro and {% with %} have one of their own, {% if %} has none. Behind them
// are the variables that the caller gives, and jinja2's functions.
#ifndef CASTOR_TEXT_CHAT_JINJA_INTERPRETER_H_
#define CASTOR_TEXT_CHAT_JINJA_INTERPRETER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/chat/jinja/runtime.h"
#include "text/chat/jinja/syntax.h"

namespace castor::text::jinja {

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<absl::string_view, Value>> names;
  bool is_kept = false;  // by a macro that was made in it
};

// The text that a {% generation %} block made: where it begins in the output,
// and how many code points it has.
struct GeneratedPart {
  int64_t begin_bytes;
  int64_t length;
};

// Serves one rendering.
class Interpreter : public Runtime {
 public:
  // So many evaluations, macros and tags may be inside each other.
  static constexpr int kMaxDepth = 1000;

  // `heap` has the variables' values. `now_s` is the time, in seconds since
  // 1970.
  Interpreter(Heap* heap, int64_t now_s) : heap_(*heap), now_s_(now_s) {
    scope_ = &variables_;
  }

  // Each variable's name must outlive this.
  void SetVariable(absl::string_view name, const Value& value) {
    variables_.names.emplace_back(name, value);
  }
  // Renders the whole of a template, once. The line at which it failed is
  // error_line(), and 0 where it did not.
  absl::Status Run(const Body& body);
  std::string TakeOutput() { return std::move(output_); }
  const std::vector<GeneratedPart>& generated() const { return generated_; }
  int error_line() const { return error_line_; }

  Heap& heap() override { return heap_; }
  absl::StatusOr<Value> Call(const Value& callee,
                             const Arguments& arguments) override;
  absl::StatusOr<std::string> TimeText(absl::string_view format) override;

 private:
  using Result = absl::StatusOr<Value>;
  enum class Flow : uint8_t { kOn, kBreak, kContinue };
  class Level;    // interpreter_guards.h
  class InScope;  // the same

  absl::StatusOr<Flow> Execute(const Body& body);
  absl::StatusOr<Flow> ExecuteOne(const Statement& statement);
  absl::StatusOr<Flow> ExecuteIf(const Statement& statement);
  absl::StatusOr<Flow> ExecuteFor(const Statement& statement);
  absl::StatusOr<Flow> ExecuteWith(const Statement& statement);
  absl::StatusOr<Flow> ExecuteSetBlock(const Statement& statement);
  absl::StatusOr<Flow> ExecuteFilter(const Statement& statement);
  absl::Status ExecuteGeneration(const Statement& statement);
  absl::Status ExecuteCallBlock(const Statement& statement);
  absl::Status ExecuteOutput(const Expression& expression);
  // Returns the sequence that the loop goes over, after its condition.
  Result LoopItems(const Statement& statement);
  // Puts the text that `body` makes into *text, in a scope of its own.
  absl::StatusOr<Flow> Capture(const Body& body, std::string* text);

  Result Evaluate(const Expression& expression);
  Result EvaluateKind(const Expression& expression);
  Result EvaluateName(const Expression& expression);
  Result EvaluateItems(const Expression& expression);
  Result EvaluateDict(const Expression& expression);
  Result EvaluateBinary(const Expression& expression);
  Result EvaluateUnary(const Expression& expression);
  Result EvaluateLogic(const Expression& expression);
  Result EvaluateConcatenate(const Expression& expression);
  Result EvaluateCompare(const Expression& expression);
  Result EvaluateConditional(const Expression& expression);
  Result EvaluateSubscript(const Expression& expression);
  Result EvaluateCall(const Expression& expression);
  Result EvaluateFilterOrTest(const Expression& expression);
  absl::Status EvaluateArguments(const Expression& expression,
                                 Arguments* arguments);
  Result CallMacro(const Function& function, const Arguments& arguments);

  absl::StatusOr<Scope*> NewScope();
  const Value* FindName(absl::string_view name);
  absl::Status SetName(Scope* scope, absl::string_view name,
                       const Value& value);
  absl::Status Assign(const Target& target, const Value& value);
  absl::Status AssignAttribute(const Target& target, const Value& value);
  Result NewMacro(const Statement& statement);
  absl::Status Write(absl::string_view text);

  Heap& heap_;
  const int64_t now_s_;
  std::deque<Scope> scopes_;
  Scope variables_;
  Scope* scope_;
  std::string output_;
  std::string* out_ = &output_;  // or a block's
  std::vector<GeneratedPart> generated_;
  Value block_text_;               // the input of a block's first filter
  const Value* caller_ = nullptr;  // for the call that is evaluated next
  int depth_ = 0;
  int error_line_ = 0;
};

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_INTERPRETER_H_
