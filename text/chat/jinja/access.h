// Access to a value's items, attributes and parts.
#ifndef CASTOR_TEXT_CHAT_JINJA_ACCESS_H_
#define CASTOR_TEXT_CHAT_JINJA_ACCESS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/chat/jinja/heap.h"
#include "text/chat/jinja/value.h"

namespace castor::text::jinja {

// Each function below gives InvalidArgument where Python raises an error, and
// ResourceExhausted where the heap's bounds are reached.

// Returns len(value).
absl::StatusOr<int64_t> Length(const Value& value);
// Returns the items over which `for` goes. A generator is used up.
absl::StatusOr<std::vector<Value>> Items(const Value& value, Heap* heap);
bool IsIterable(const Value& value);

// Returns the items of a dictionary, each a tuple of its key and its value.
absl::StatusOr<std::vector<Value>> KeysWithValues(const Dict& dict, Heap* heap);
// Returns the value of a key; null if the dictionary does not have the key.
absl::StatusOr<const Value*> Lookup(const Dict& dict, const Value& key,
                                    Heap* heap);
// Adds the value under the key, or replaces the one that is there.
absl::Status Insert(std::vector<std::pair<Value, Value>>* items,
                    const Value& key, const Value& value, Heap* heap);
// Checks a key. InvalidArgument: the value cannot be one.
absl::Status CheckKey(const Value& key);

// Return owner.name and owner[key], as jinja2's sandbox gives them: undefined
// where there is none.
absl::StatusOr<Value> Attribute(const Value& owner, absl::string_view name,
                                Heap* heap);
absl::StatusOr<Value> Item(const Value& owner, const Value& key, Heap* heap);
// Returns owner[start:stop:step]; each of the three may be none.
absl::StatusOr<Value> Slice(const Value& owner, const Value& start,
                            const Value& stop, const Value& step, Heap* heap);
// Returns code points [begin, end) of a string, negative ones counted from its
// end.
absl::string_view Part(const String& string, int64_t begin, int64_t end);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_ACCESS_H_
