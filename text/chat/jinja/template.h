// A template of the language of jinja2, as chat templates are written in it,
// rendered to the bytes that jinja2 3.1 gives with the settings of
// transformers: a sandbox, trim_blocks, lstrip_blocks, {% break %} and
// {% continue %}, `tojson` as json.dumps with ensure_ascii=False,
// raise_exception(), strftime_now(), {% generation %}.
//
// docs/chat.md lists what is supported. A template with anything else is
// refused, with the name of the unsupported part and its line. Where a template
// reads an undefined value, calls a value that cannot be called, or adds a
// number to a text, there is an error where Python raises one.
//
// Whatever a template does, it ends: heap.h bounds its time and memory, and the
// tree's and the values' depth is bounded, too.
//
// Threads: immutable; any number may render one template at once.
#ifndef CASTOR_TEXT_CHAT_JINJA_TEMPLATE_H_
#define CASTOR_TEXT_CHAT_JINJA_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "text/chat/jinja/heap.h"
#include "text/chat/jinja/syntax.h"

namespace castor::text::jinja {

// Bytes [begin, end) of a text.
struct TextSpan {
  int64_t begin, end;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

struct Rendered {
  std::string text;
  // The text that each {% generation %} block wrote, in the order in which they
  // ended. A block in a macro, or in a {% set %} block, counts as beginning
  // where the output ends at that moment, as in transformers' AssistantTracker.
  std::vector<TextSpan> generated;
};

struct Variable {
  absl::string_view name;
  const OrderedJson* value;
};

class Template {
 public:
  static constexpr int64_t kMaxBytes = int64_t{256} << 10;

  // Parses a template. InvalidArgument: the source is no template, or has
  // something unsupported; says which after "line N: ".
  static absl::StatusOr<std::unique_ptr<const Template>> Parse(
      absl::string_view source);
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

  // Renders it with these variables. `now_s` is the time, in seconds since
  // 1970, that strftime_now() writes in the local zone. FailedPrecondition: the
  // template called raise_exception(), with its message as it is.
  // InvalidArgument: any other error, after "line N: ". ResourceExhausted: a
  // bound, after the same.
  absl::StatusOr<Rendered> Render(absl::Span<const Variable> variables,
                                  int64_t now_s) const;

  // Returns true if it has a {% generation %} block.
  bool has_generation() const { return has_generation_; }

 private:
  Template() : constants_(kMaxBytes) {}

  Heap constants_;
  Body body_;
  bool has_generation_ = false;
};

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_TEMPLATE_H_
