#include "text/chat/jinja/access.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "text/chat/jinja/callable.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/python_text.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text::jinja {
namespace {

absl::Status NotIterable(const Value& value) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", TypeName(value), "' object is not iterable"));
}

absl::StatusOr<std::vector<Value>> Characters(const String& string,
                                              Heap* heap) {
  const absl::string_view text = string.bytes;
  CASTOR_RETURN_IF_ERROR(heap->TakeBytes(string.length * sizeof(Value)));
  std::vector<Value> items;
  items.reserve(string.length);
  for (size_t place = 0; place < text.size();) {
    const size_t begin = place;
    place += Utf8Length(text[place]);
    CASTOR_ASSIGN_OR_RETURN(
        items.emplace_back(),
        heap->NewCharacter(text.substr(begin, place - begin)));
  }
  return items;
}

// Returns true for a method that changes the value, which the sandbox does not
// let a template call.
bool IsMutating(const Value& owner, absl::string_view name) {
  static constexpr absl::string_view kOfList[] = {"append",  "clear", "extend",
                                                  "insert",  "pop",   "remove",
                                                  "reverse", "sort"};
  static constexpr absl::string_view kOfDict[] = {"clear", "pop", "popitem",
                                                  "setdefault", "update"};
  const auto has = [name](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) !=
           std::end(names);
  };
  if (owner.is(Kind::kDict)) return has(kOfDict);
  return owner.is(SequenceType::kList) && has(kOfList);
}

absl::StatusOr<Value> LoopAttribute(const Loop& loop, absl::string_view name,
                                    Heap* heap) {
  const int64_t length = static_cast<int64_t>(loop.items->items.size());
  const auto neighbour = [&](int64_t index,
                             const char* missing) -> absl::StatusOr<Value> {
    if (index >= 0 && index < length) return loop.items->items[index];
    return heap->NewMissing({Missing::Why::kOther, missing, {}, {}});
  };
  if (name == "index") return Value::Int(loop.index0 + 1);
  if (name == "index0") return Value::Int(loop.index0);
  if (name == "revindex") return Value::Int(length - loop.index0);
  if (name == "revindex0") return Value::Int(length - loop.index0 - 1);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last") return Value::Bool(loop.index0 + 1 == length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(1);
  if (name == "depth0") return Value::Int(0);
  if (name == "previtem") {
    return neighbour(loop.index0 - 1, "there is no previous item");
  }
  if (name == "nextitem") {
    return neighbour(loop.index0 + 1, "there is no next item");
  }
  return Value();
}

// Returns the value that a template gets for an attribute or element that is
// not there.
absl::StatusOr<Value> MissingOf(const Value& owner, const Value& key,
                                Heap* heap) {
  const bool is_unsafe = key.is_string() && absl::StartsWith(key.text(), "__");
  return heap->NewMissing(
      {is_unsafe ? Missing::Why::kUnsafe : Missing::Why::kAttribute, "", owner,
       key});
}

// The attribute that Python's getattr finds, which is no item; none: there is
// no such attribute.
absl::StatusOr<std::optional<Value>> OwnAttribute(const Value& owner,
                                                  absl::string_view name,
                                                  Heap* heap) {
  if (owner.is(Kind::kNamespace)) {
    for (const auto& [key, value] : owner.names().items) {
      if (key.is_string() && key.text() == name) return value;
    }
    return std::nullopt;
  }
  if (owner.is(Kind::kLoop)) {
    CASTOR_ASSIGN_OR_RETURN(const Value value,
                            LoopAttribute(owner.loop(), name, heap));
    // An attribute that a loop has and that is undefined says why.
    if (!value.is_undefined() || value.missing() != nullptr) return value;
  }
  if (IsMutating(owner, name)) {
    CASTOR_ASSIGN_OR_RETURN(const Value key, heap->NewString(name));
    return heap->NewMissing({Missing::Why::kUnsafe, "", owner, key});
  }
  const Callable* method = FindMethod(owner, name);
  if (method == nullptr) return std::nullopt;
  Function function;
  function.callable = method;
  function.self = owner;
  return heap->NewFunction(std::move(function));
}

// The item, or none where Python raises a LookupError or a TypeError.
absl::StatusOr<std::optional<Value>> OwnItem(const Value& owner,
                                             const Value& key, Heap* heap) {
  if (owner.is(Kind::kDict)) {
    if (!CheckKey(key).ok()) return std::nullopt;
    CASTOR_ASSIGN_OR_RETURN(const Value* found,
                            Lookup(owner.dict(), key, heap));
    if (found == nullptr) return std::nullopt;
    return *found;
  }
  if (!key.is_integer()) return std::nullopt;
  int64_t index = key.integer();
  if (owner.is_string()) {
    const String& string = owner.string();
    if (index < 0) index += string.length;
    if (index < 0 || index >= string.length) return std::nullopt;
    CASTOR_RETURN_IF_ERROR(heap->TakeText(string.is_ascii ? 1 : index));
    return heap->NewString(Part(string, index, index + 1));
  }
  if (!owner.is_indexed()) return std::nullopt;
  const std::vector<Value>& items = owner.sequence().items;
  const int64_t size = static_cast<int64_t>(items.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return items[index];
}

// One bound of a slice; none: it has none.
absl::StatusOr<std::optional<int64_t>> Bound(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (value.is_integer()) return value.integer();
  if (value.is_undefined()) return UndefinedError(value);
  return absl::InvalidArgumentError(absl::StrCat(
      "slice indices must be integers or None, not ", TypeName(value)));
}

}  // namespace

absl::StatusOr<int64_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return value.string().length;
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().items.size());
    case Kind::kSequence:
      if (value.sequence().type == SequenceType::kGenerator) break;
      return static_cast<int64_t>(value.sequence().items.size());
    case Kind::kLoop:
      return static_cast<int64_t>(value.loop().items->items.size());
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("object of type '", TypeName(value), "' has no len()"));
}

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is(Kind::kDict) ||
         value.is(Kind::kSequence) || value.is(Kind::kLoop);
}

absl::StatusOr<std::vector<Value>> Items(const Value& value, Heap* heap) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return std::vector<Value>();
    case Kind::kString:
      return Characters(value.string(), heap);
    case Kind::kDict: {
      const auto& pairs = value.dict().items;
      CASTOR_RETURN_IF_ERROR(heap->TakeBytes(pairs.size() * sizeof(Value)));
      std::vector<Value> keys;
      keys.reserve(pairs.size());
      for (const auto& pair : pairs) keys.push_back(pair.first);
      return keys;
    }
    case Kind::kSequence: {
      Sequence& sequence = value.sequence();
      CASTOR_RETURN_IF_ERROR(heap->Take(sequence.items.size() / 8));
      CASTOR_RETURN_IF_ERROR(
          heap->TakeBytes(sequence.items.size() * sizeof(Value)));
      if (sequence.type == SequenceType::kGenerator) {
        if (std::exchange(sequence.is_used, true)) return std::vector<Value>();
      }
      return sequence.items;
    }
    default:
      return NotIterable(value);
  }
}

absl::Status CheckKey(const Value& key) {
  // A tuple can be a key where its items can. One with tuples in it, which
  // Python allows, is refused: no conversation has such keys.
  const bool is_tuple = key.is(SequenceType::kTuple);
  for (const Value& part : is_tuple ? absl::MakeConstSpan(key.sequence().items)
                                    : absl::MakeConstSpan(&key, 1)) {
    if (part.is(Kind::kDict) || part.is(Kind::kSequence)) {
      return absl::InvalidArgumentError(
          absl::StrCat("unhashable type: '", TypeName(part), "'"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Value>> KeysWithValues(const Dict& dict,
                                                  Heap* heap) {
  std::vector<Value> pairs;
  pairs.reserve(dict.items.size());
  for (const auto& [key, value] : dict.items) {
    CASTOR_ASSIGN_OR_RETURN(pairs.emplace_back(), heap->NewTuple({key, value}));
  }
  return pairs;
}

absl::StatusOr<const Value*> Lookup(const Dict& dict, const Value& key,
                                    Heap* heap) {
  CASTOR_RETURN_IF_ERROR(heap->Take(1 + dict.items.size() / 8));
  for (const auto& [name, value] : dict.items) {
    if (key.is_string() && name.is_string()) {
      if (key.text() == name.text()) return &value;
      continue;
    }
    CASTOR_ASSIGN_OR_RETURN(const bool is_same, Equal(name, key, heap));
    if (is_same) return &value;
  }
  return nullptr;
}

absl::Status Insert(std::vector<std::pair<Value, Value>>* items,
                    const Value& key, const Value& value, Heap* heap) {
  CASTOR_RETURN_IF_ERROR(CheckKey(key));
  CASTOR_RETURN_IF_ERROR(heap->Take(1 + items->size() / 8));
  for (auto& [name, old] : *items) {
    CASTOR_ASSIGN_OR_RETURN(const bool is_same, Equal(name, key, heap));
    if (is_same) {
      old = value;
      return absl::OkStatus();
    }
  }
  items->emplace_back(key, value);
  return absl::OkStatus();
}

absl::StatusOr<Value> Attribute(const Value& owner, absl::string_view name,
                                Heap* heap) {
  if (owner.is_undefined()) return UndefinedError(owner);
  CASTOR_ASSIGN_OR_RETURN(const std::optional<Value> own,
                          OwnAttribute(owner, name, heap));
  if (own.has_value()) return *own;
  CASTOR_ASSIGN_OR_RETURN(const Value key, heap->NewString(name));
  CASTOR_ASSIGN_OR_RETURN(const std::optional<Value> item,
                          OwnItem(owner, key, heap));
  if (item.has_value()) return *item;
  return MissingOf(owner, key, heap);
}

absl::StatusOr<Value> Item(const Value& owner, const Value& key, Heap* heap) {
  if (owner.is_undefined()) return UndefinedError(owner);
  CASTOR_ASSIGN_OR_RETURN(const std::optional<Value> item,
                          OwnItem(owner, key, heap));
  if (item.has_value()) return *item;
  if (!key.is_string()) return MissingOf(owner, key, heap);
  CASTOR_ASSIGN_OR_RETURN(const std::optional<Value> own,
                          OwnAttribute(owner, key.text(), heap));
  if (own.has_value()) return *own;
  return MissingOf(owner, key, heap);
}

absl::string_view Part(const String& string, int64_t begin, int64_t end) {
  const absl::string_view text = string.bytes;
  const auto bounded = [&](int64_t index) {
    if (index < 0) index += string.length;
    return std::clamp<int64_t>(index, 0, string.length);
  };
  begin = bounded(begin);
  end = std::max(begin, bounded(end));
  if (string.is_ascii) return text.substr(begin, end - begin);
  size_t place = 0;
  for (int64_t i = 0; i < begin; ++i) place += Utf8Length(text[place]);
  size_t behind = place;
  for (int64_t i = begin; i < end; ++i) behind += Utf8Length(text[behind]);
  return text.substr(place, behind - place);
}

absl::StatusOr<Value> Slice(const Value& owner, const Value& start,
                            const Value& stop, const Value& step, Heap* heap) {
  if (owner.is_undefined()) return UndefinedError(owner);
  if (!owner.is_string() && !owner.is_indexed()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", TypeName(owner), "' object cannot be sliced"));
  }
  CASTOR_ASSIGN_OR_RETURN(const std::optional<int64_t> given_start,
                          Bound(start));
  CASTOR_ASSIGN_OR_RETURN(const std::optional<int64_t> given_stop, Bound(stop));
  CASTOR_ASSIGN_OR_RETURN(const std::optional<int64_t> given_step, Bound(step));
  CASTOR_ASSIGN_OR_RETURN(const int64_t length, Length(owner));
  // A longer step goes to the end as well.
  const int64_t by =
      std::clamp(given_step.value_or(1), -(length + 1), length + 1);
  if (by == 0) {
    return absl::InvalidArgumentError("slice step cannot be zero");
  }
  const int64_t lowest = by > 0 ? 0 : -1,
                highest = by > 0 ? length : length - 1;
  const auto bounded = [&](std::optional<int64_t> given, int64_t otherwise) {
    if (!given.has_value()) return otherwise;
    const int64_t index = *given < 0 ? *given + length : *given;
    return std::clamp(index, lowest, highest);
  };
  const int64_t first = bounded(given_start, by > 0 ? lowest : highest);
  const int64_t last = bounded(given_stop, by > 0 ? highest : lowest);
  if (owner.is_string() && by == 1) {
    const String& string = owner.string();
    CASTOR_RETURN_IF_ERROR(heap->TakeText(string.bytes.size()));
    return heap->NewString(
        std::string(first < last ? Part(string, first, last) : ""),
        owner.is_markup());
  }
  std::vector<Value> all;
  if (owner.is_string()) {
    CASTOR_ASSIGN_OR_RETURN(all, Characters(owner.string(), heap));
  }
  const std::vector<Value>& items =
      owner.is_string() ? all : owner.sequence().items;
  CASTOR_RETURN_IF_ERROR(heap->Take(std::abs(last - first) / std::abs(by) / 4));
  std::vector<Value> picked;
  for (int64_t i = first; by > 0 ? i < last : i > last; i += by) {
    picked.push_back(items[i]);
  }
  if (!owner.is_string()) {
    return heap->NewSequence(owner.sequence().type, std::move(picked));
  }
  TextBuilder text(heap);
  for (const Value& c : picked) text.Append(c.text());
  return std::move(text).Make(owner.is_markup());
}

}  // namespace castor::text::jinja
