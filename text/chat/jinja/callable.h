// The functions that a template can call, and their arguments.
#ifndef CASTOR_TEXT_CHAT_JINJA_CALLABLE_H_
#define CASTOR_TEXT_CHAT_JINJA_CALLABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "text/chat/jinja/value.h"

namespace castor::text::jinja {

class Runtime;     // runtime.h
struct Statement;  // syntax.h
struct Scope;      // interpreter.h

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Puts each argument into `out` at the place of its name in `names`; places of
// arguments that are not given stay as they are. `out` has as many places as
// `names`. InvalidArgument: too many arguments, one that has no such name or is
// given twice, or one of the first `required` is missing.
absl::Status Bind(const Arguments& arguments, absl::string_view callee,
                  absl::Span<const absl::string_view> names, int required,
                  absl::Span<Value> out);

// A filter, a test, a method or a function of the environment. A function is
// given a `self` that is undefined.
using Implementation = absl::StatusOr<Value> (*)(Runtime& runtime, Value self,
                                                 const Arguments& arguments);

struct Callable {
  absl::string_view name;
  Implementation run;  // null: Python has it, and this does not
};

struct Function {
  const Callable* callable = nullptr;  // null: a macro
  Value self;                          // the value whose method it is
  // A macro has its statement, and the scope in which it was defined, where the
  // names that it does not define itself are looked up.
  const Statement* macro = nullptr;
  Scope* scope = nullptr;
};

// Returns the entry of this name; null if the table has none.
const Callable* Find(absl::Span<const Callable> table, absl::string_view name);

const Callable* FindFilter(absl::string_view name);
const Callable* FindTest(absl::string_view name);
const Callable* FindGlobal(absl::string_view name);
// Returns the method of the type of `self`; null if it has none of this name.
const Callable* FindMethod(const Value& self, absl::string_view name);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_CALLABLE_H_
