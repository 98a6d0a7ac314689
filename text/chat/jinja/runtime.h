// The services that filters, tests and methods need of the interpreter that
// calls them.
#ifndef CASTOR_TEXT_CHAT_JINJA_RUNTIME_H_
#define CASTOR_TEXT_CHAT_JINJA_RUNTIME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/chat/jinja/callable.h"
#include "text/chat/jinja/heap.h"
#include "text/chat/jinja/value.h"

namespace castor::text::jinja {

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  virtual Heap& heap() = 0;
  // Calls a macro, a method or a function. FailedPrecondition: the message of a
  // raise_exception(); InvalidArgument: any other error.
  virtual absl::StatusOr<Value> Call(const Value& callee,
                                     const Arguments& arguments) = 0;
  // Returns the time of day by `format`, as strftime writes it in the C locale.
  virtual absl::StatusOr<std::string> TimeText(absl::string_view format) = 0;
};

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_RUNTIME_H_
