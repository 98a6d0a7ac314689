// The methods of values that are no strings.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/callable.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/python_text.h"
#include "text/chat/jinja/runtime.h"
#include "text/chat/jinja/string_methods.h"

namespace castor::text::jinja {
namespace {

absl::StatusOr<Value> Get(Runtime& runtime, Value self,
                          const Arguments& arguments) {
  Value given[2] = {Value(), Value::None()};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "dict.get", {"key", "default"}, 1,
                              absl::MakeSpan(given)));
  CASTOR_RETURN_IF_ERROR(CheckKey(given[0]));
  CASTOR_ASSIGN_OR_RETURN(const Value* found,
                          Lookup(self.dict(), given[0], &runtime.heap()));
  return found == nullptr ? given[1] : *found;
}

absl::StatusOr<Value> ItemsMethod(Runtime& runtime, Value self,
                                  const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "dict.items", {}, 0, {}));
  CASTOR_ASSIGN_OR_RETURN(std::vector<Value> items,
                          KeysWithValues(self.dict(), &runtime.heap()));
  return runtime.heap().NewSequence(SequenceType::kItems, std::move(items));
}

absl::StatusOr<Value> Keys(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "dict.keys", {}, 0, {}));
  CASTOR_ASSIGN_OR_RETURN(std::vector<Value> keys,
                          Items(self, &runtime.heap()));
  return runtime.heap().NewSequence(SequenceType::kKeys, std::move(keys));
}

absl::StatusOr<Value> Values(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "dict.values", {}, 0, {}));
  std::vector<Value> values;
  values.reserve(self.dict().items.size());
  for (const auto& pair : self.dict().items) values.push_back(pair.second);
  return runtime.heap().NewSequence(SequenceType::kValues, std::move(values));
}

absl::StatusOr<Value> Copy(Runtime&, Value self, const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "copy", {}, 0, {}));
  return self;  // nothing changes it
}

absl::StatusOr<Value> CountMethod(Runtime& runtime, Value self,
                                  const Arguments& arguments) {
  Value given[1];
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "count", {"value"}, 1, absl::MakeSpan(given)));
  int64_t count = 0;
  for (const Value& item : self.sequence().items) {
    CASTOR_ASSIGN_OR_RETURN(const bool is_same,
                            Equal(item, given[0], &runtime.heap()));
    count += is_same ? 1 : 0;
  }
  return Value::Int(count);
}

absl::StatusOr<Value> IndexMethod(Runtime& runtime, Value self,
                                  const Arguments& arguments) {
  Value given[1];
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "index", {"value"}, 1, absl::MakeSpan(given)));
  const std::vector<Value>& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    CASTOR_ASSIGN_OR_RETURN(const bool is_same,
                            Equal(items[i], given[0], &runtime.heap()));
    if (is_same) return Value::Int(static_cast<int64_t>(i));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ReprForMessage(given[0]), " is not in the list"));
}

absl::StatusOr<Value> Cycle(Runtime&, Value self, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return absl::InvalidArgumentError("loop.cycle expects items to cycle over");
  }
  return arguments.positional[self.loop().index0 % arguments.positional.size()];
}

absl::StatusOr<Value> Changed(Runtime& runtime, Value self,
                              const Arguments& arguments) {
  const Loop& loop = self.loop();
  bool is_same = loop.has_changed &&
                 loop.last_changed.size() == arguments.positional.size();
  for (size_t i = 0; is_same && i < loop.last_changed.size(); ++i) {
    CASTOR_ASSIGN_OR_RETURN(
        is_same,
        Equal(loop.last_changed[i], arguments.positional[i], &runtime.heap()));
  }
  if (is_same) return Value::Bool(false);
  loop.has_changed = true;
  loop.last_changed = arguments.positional;
  return Value::Bool(true);
}

// Python's further attributes that may be used are named, so that they are
// refused and not taken for missing ones.
constexpr Callable kDictMethods[] = {
    {"get", Get},   {"items", ItemsMethod}, {"keys", Keys},
    {"copy", Copy}, {"values", Values},     {"fromkeys", nullptr},
};
constexpr Callable kListMethods[] = {
    {"copy", Copy}, {"count", CountMethod}, {"index", IndexMethod}};
constexpr Callable kTupleMethods[] = {{"count", CountMethod},
                                      {"index", IndexMethod}};
constexpr Callable kLoopMethods[] = {{"cycle", Cycle}, {"changed", Changed}};
constexpr Callable kNumberMethods[] = {
    {"as_integer_ratio", nullptr},
    {"bit_count", nullptr},
    {"bit_length", nullptr},
    {"conjugate", nullptr},
    {"denominator", nullptr},
    {"from_bytes", nullptr},
    {"fromhex", nullptr},
    {"hex", nullptr},
    {"imag", nullptr},
    {"is_integer", nullptr},
    {"numerator", nullptr},
    {"real", nullptr},
    {"to_bytes", nullptr},
};

}  // namespace

const Callable* FindMethod(const Value& self, absl::string_view name) {
  switch (self.kind()) {
    case Kind::kString:
      return Find(StringMethods(), name);
    case Kind::kDict:
      return Find(kDictMethods, name);
    case Kind::kLoop:
      return Find(kLoopMethods, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return Find(kNumberMethods, name);
    case Kind::kSequence:
      if (self.is(SequenceType::kList)) return Find(kListMethods, name);
      return self.is_indexed() ? Find(kTupleMethods, name) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace castor::text::jinja
