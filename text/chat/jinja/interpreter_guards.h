// Guards that change an Interpreter's state while they live, and restore it
// then.
#ifndef CASTOR_TEXT_CHAT_JINJA_INTERPRETER_GUARDS_H_
#define CASTOR_TEXT_CHAT_JINJA_INTERPRETER_GUARDS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "text/chat/jinja/interpreter.h"

namespace castor::text::jinja {

// Makes the interpreter one level deeper for as long as it lives.
class Interpreter::Level {
 public:
  explicit Level(Interpreter* interpreter) : interpreter_(*interpreter) {
    ++interpreter_.depth_;
  }
  ~Level() { --interpreter_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  absl::Status Check() const {
    if (interpreter_.depth_ <= kMaxDepth) {
      return interpreter_.heap_.Take(1);
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("macros, tags and expressions are nested deeper than ",
                     kMaxDepth, " levels when they run"));
  }

 private:
  Interpreter& interpreter_;
};

// Makes names be looked up from `scope` on for as long as it lives.
class Interpreter::InScope {
 public:
  InScope(Interpreter* interpreter, Scope* scope)
      : interpreter_(*interpreter),
        before_(std::exchange(interpreter->scope_, scope)) {}
  ~InScope() { interpreter_.scope_ = before_; }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* const before_;
};

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_INTERPRETER_GUARDS_H_
