// jinja2's filters, in two tables: those of single values, and those of
// sequences.
#ifndef CASTOR_TEXT_CHAT_JINJA_FILTERS_H_
#define CASTOR_TEXT_CHAT_JINJA_FILTERS_H_

#include "absl/types/span.h"
#include "text/chat/jinja/callable.h"

namespace castor::text::jinja {

absl::Span<const Callable> ValueFilters();
absl::Span<const Callable> SequenceFilters();

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_FILTERS_H_
