// Reads a template's tags.
#ifndef CASTOR_TEXT_CHAT_JINJA_PARSER_H_
#define CASTOR_TEXT_CHAT_JINJA_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/chat/jinja/heap.h"
#include "text/chat/jinja/syntax.h"

namespace castor::text::jinja {

// Returns the tree of `source`, valid UTF-8. Its constants go to `constants`,
// which must outlive it. InvalidArgument: names what is wrong or not supported,
// and its line.
absl::StatusOr<Body> ParseTemplate(absl::string_view source, Heap* constants);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_PARSER_H_
