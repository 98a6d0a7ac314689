// The methods of Python's str.
#ifndef CASTOR_TEXT_CHAT_JINJA_STRING_METHODS_H_
#define CASTOR_TEXT_CHAT_JINJA_STRING_METHODS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "text/chat/jinja/callable.h"
#include "text/chat/jinja/heap.h"

namespace castor::text::jinja {

// The table of all methods that Python has; those that are not supported have
// no `run`.
absl::Span<const Callable> StringMethods();

// Returns the first place from `begin` on where `part` is in the text, or npos,
// in a time that grows with the text alone, unlike that of string_view::find.
size_t FindFrom(absl::string_view text, absl::string_view part, size_t begin);
// Returns text.replace(from, to, count); replaces all if `count` is negative.
absl::StatusOr<Value> Replace(absl::string_view text, absl::string_view from,
                              absl::string_view to, int64_t count,
                              bool is_markup, Heap* heap);
enum class Side : uint8_t { kLeft, kRight, kBoth };
// Returns text.strip(), without spaces or without the characters that
// `characters` has.
absl::string_view Strip(absl::string_view text, Side side,
                        const String* characters);
// Returns text.splitlines().
absl::StatusOr<std::vector<absl::string_view>> SplitLines(
    absl::string_view text, bool keep_ends, Heap* heap);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_STRING_METHODS_H_
