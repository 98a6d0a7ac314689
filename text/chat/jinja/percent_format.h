// Python's `format % values`.
#ifndef CASTOR_TEXT_CHAT_JINJA_PERCENT_FORMAT_H_
#define CASTOR_TEXT_CHAT_JINJA_PERCENT_FORMAT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/chat/jinja/heap.h"
#include "text/chat/jinja/value.h"

namespace castor::text::jinja {

// Formats values: %s, %r, %d, %i, %f with a precision, %(name)s and the like,
// and %%. InvalidArgument: another conversion, or values that do not fit.
absl::StatusOr<Value> PercentFormat(absl::string_view format,
                                    const Value& values, Heap* heap);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_PERCENT_FORMAT_H_
