#include "text/chat/jinja/template.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/chat/jinja/interpreter.h"
#include "text/chat/jinja/parser.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text::jinja {
namespace {

// About what its text would take.
int64_t SizeOf(const OrderedJson& json) {
  constexpr int64_t kScalarBytes = 8;
  if (json.is_string()) {
    return kScalarBytes +
           static_cast<int64_t>(json.get_ref<const std::string&>().size());
  }
  int64_t size = kScalarBytes;
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      size += static_cast<int64_t>(key.size()) + SizeOf(value);
    }
  } else if (json.is_array()) {
    for (const OrderedJson& value : json) size += SizeOf(value);
  }
  return size;
}

bool HasGeneration(const Body& body) {
  return std::any_of(body.begin(), body.end(), [](const StatementPtr& part) {
    return part->kind == StatementKind::kGeneration ||
           HasGeneration(part->body) || HasGeneration(part->otherwise) ||
           std::any_of(
               part->branches.begin(), part->branches.end(),
               [](const Branch& branch) { return HasGeneration(branch.body); });
  });
}

// The byte behind `length` code points from `begin` on.
int64_t EndOf(absl::string_view text, int64_t begin, int64_t length) {
  size_t place = begin;
  for (int64_t i = 0; i < length && place < text.size(); ++i) {
    place += Utf8Length(text[place]);
  }
  return static_cast<int64_t>(place);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Template>> Template::Parse(
    absl::string_view source) {
  if (source.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", source.size(), " bytes, more than ", kMaxBytes,
                     ", the most of a template"));
  }
  if (!IsValidUtf8(source)) {
    return absl::InvalidArgumentError("it is not UTF-8");
  }
  std::unique_ptr<Template> made(new Template());
  CASTOR_ASSIGN_OR_RETURN(made->body_,
                          ParseTemplate(source, &made->constants_));
  made->has_generation_ = HasGeneration(made->body_);
  return made;
}

absl::StatusOr<Rendered> Template::Render(absl::Span<const Variable> variables,
                                          int64_t now_s) const {
  int64_t given_bytes = 0;
  for (const Variable& variable : variables) {
    given_bytes += SizeOf(*variable.value);
  }
  Heap heap(given_bytes);
  Interpreter interpreter(&heap, now_s);
  for (const Variable& variable : variables) {
    CASTOR_ASSIGN_OR_RETURN(const Value value, heap.NewFrom(*variable.value));
    interpreter.SetVariable(variable.name, value);
  }
  const absl::Status status = interpreter.Run(body_);
  if (absl::IsFailedPrecondition(status)) return status;
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("line ", interpreter.error_line(), ": ",
                                     status.message()));
  }
  Rendered rendered;
  rendered.text = interpreter.TakeOutput();
  for (const GeneratedPart& part : interpreter.generated()) {
    rendered.generated.push_back(
        {part.begin_bytes,
         EndOf(rendered.text, part.begin_bytes, part.length)});
  }
  return rendered;
}

}  // namespace castor::text::jinja
