#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/characters.h"
#include "text/chat/jinja/filters.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/python_text.h"
#include "text/chat/jinja/runtime.h"

namespace castor::text::jinja {
namespace {

// "a.b.0" of an item, as filters with an attribute look it up; the item itself
// where `attribute` is none. What is undefined becomes `otherwise`, if there is
// one.
absl::StatusOr<Value> Attributed(Runtime& runtime, Value item,
                                 const Value& attribute,
                                 const std::optional<Value>& otherwise = {}) {
  if (attribute.is_none()) return item;
  std::vector<std::string> parts = {""};
  if (attribute.is_string()) {
    parts = absl::StrSplit(attribute.text(), '.');
  }
  for (const std::string& part : parts) {
    Value key = attribute;
    if (attribute.is_string()) {
      int64_t index = 0;
      const bool is_index =
          part.find_first_not_of("0123456789") == std::string::npos &&
          absl::SimpleAtoi(part, &index);
      if (is_index) {
        key = Value::Int(index);
      } else {
        CASTOR_ASSIGN_OR_RETURN(key, runtime.heap().NewString(part));
      }
    }
    CASTOR_ASSIGN_OR_RETURN(item, Item(item, key, &runtime.heap()));
    if (item.is_undefined() && otherwise.has_value()) item = *otherwise;
  }
  return item;
}

// Returns the key by which items are compared: a text without its case, unless
// case counts.
absl::StatusOr<Value> CaseKey(Runtime& runtime, const Value& value,
                              bool is_case_sensitive) {
  if (is_case_sensitive || !value.is_string()) return value;
  CASTOR_RETURN_IF_ERROR(runtime.heap().TakeText(4 * value.text().size()));
  return runtime.heap().NewString(ToLower(value.text()));
}

absl::StatusOr<Value> NewGenerator(Runtime& runtime, std::vector<Value> items) {
  return runtime.heap().NewSequence(SequenceType::kGenerator, std::move(items));
}

absl::StatusOr<Value> First(Runtime& runtime, Value self,
                            const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "first", {}, 0, {}));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(self, &runtime.heap()));
  if (!items.empty()) return items.front();
  return runtime.heap().NewMissing(
      {Missing::Why::kOther, "no first item, the sequence was empty", {}, {}});
}

absl::Status CheckReversible(const Value& value) {
  if (value.is(SequenceType::kGenerator)) {
    return absl::InvalidArgumentError("a generator cannot be reversed");
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Last(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "last", {}, 0, {}));
  CASTOR_RETURN_IF_ERROR(CheckReversible(self));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(self, &runtime.heap()));
  if (!items.empty()) return items.back();
  return runtime.heap().NewMissing(
      {Missing::Why::kOther, "no last item, the sequence was empty", {}, {}});
}

absl::StatusOr<Value> Reverse(Runtime& runtime, Value self,
                              const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "reverse", {}, 0, {}));
  if (self.is_string()) {
    return Slice(Value(&self.string()), Value::None(), Value::None(),
                 Value::Int(-1), &runtime.heap());
  }
  CASTOR_RETURN_IF_ERROR(CheckReversible(self));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(self, &runtime.heap()));
  return NewGenerator(runtime, {items.rbegin(), items.rend()});
}

absl::StatusOr<Value> List(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "list", {}, 0, {}));
  CASTOR_ASSIGN_OR_RETURN(std::vector<Value> items,
                          Items(self, &runtime.heap()));
  return runtime.heap().NewList(std::move(items));
}

absl::StatusOr<Value> LengthFilter(Runtime&, Value self,
                                   const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "length", {}, 0, {}));
  CASTOR_ASSIGN_OR_RETURN(const int64_t length, Length(self));
  return Value::Int(length);
}

absl::StatusOr<Value> JoinFilter(Runtime& runtime, Value self,
                                 const Arguments& arguments) {
  Value given[2] = {Value(), Value::None()};
  CASTOR_ASSIGN_OR_RETURN(given[0], runtime.heap().NewString(""));
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "join", {"d", "attribute"}, 0, absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(const Value between,
                          StrValue(given[0], false, &runtime.heap()));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(self, &runtime.heap()));
  TextBuilder out(&runtime.heap());
  bool is_first = true;
  for (const Value& item : items) {
    CASTOR_ASSIGN_OR_RETURN(const Value value,
                            Attributed(runtime, item, given[1]));
    if (!std::exchange(is_first, false)) out.Append(between.text());
    CASTOR_RETURN_IF_ERROR(AppendStr(value, &runtime.heap(), &out));
  }
  return std::move(out).Make();
}

absl::StatusOr<Value> ItemsFilter(Runtime& runtime, Value self,
                                  const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "items", {}, 0, {}));
  std::vector<Value> items;
  if (self.is(Kind::kDict)) {
    CASTOR_ASSIGN_OR_RETURN(items,
                            KeysWithValues(self.dict(), &runtime.heap()));
  } else if (!self.is_undefined()) {
    return absl::InvalidArgumentError("the filter items expects a mapping");
  }
  return NewGenerator(runtime, std::move(items));
}

// A list of the second of each pair, sorted by the first.
absl::StatusOr<Value> SortedList(Runtime& runtime, bool reverse,
                                 std::vector<std::pair<Value, Value>> keyed) {
  CASTOR_RETURN_IF_ERROR(SortBy([](const auto& item) { return item.first; },
                                reverse, &runtime.heap(), &keyed));
  std::vector<Value> items;
  for (const auto& item : keyed) items.push_back(item.second);
  return runtime.heap().NewList(std::move(items));
}

absl::StatusOr<Value> DictSort(Runtime& runtime, Value self,
                               const Arguments& arguments) {
  Value given[3] = {Value::Bool(false), Value(), Value::Bool(false)};
  CASTOR_ASSIGN_OR_RETURN(given[1], runtime.heap().NewString("key"));
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "dictsort",
                              {"case_sensitive", "by", "reverse"}, 0,
                              absl::MakeSpan(given)));
  if (self.is_undefined()) return UndefinedError(self);
  if (!self.is(Kind::kDict)) {
    return absl::InvalidArgumentError("the filter dictsort expects a dict");
  }
  CASTOR_ASSIGN_OR_RETURN(const bool is_case_sensitive, Truth(given[0]));
  CASTOR_ASSIGN_OR_RETURN(const bool reverse, Truth(given[2]));
  const bool by_value = given[1].is_string() && given[1].text() == "value";
  if (!by_value && !(given[1].is_string() && given[1].text() == "key")) {
    return absl::InvalidArgumentError(
        "dictsort sorts by \"key\" or by \"value\"");
  }
  std::vector<std::pair<Value, Value>> keyed;  // what it is sorted by, the item
  for (const auto& [key, value] : self.dict().items) {
    CASTOR_ASSIGN_OR_RETURN(
        const Value by,
        CaseKey(runtime, by_value ? value : key, is_case_sensitive));
    CASTOR_ASSIGN_OR_RETURN(const Value pair,
                            runtime.heap().NewTuple({key, value}));
    keyed.emplace_back(by, pair);
  }
  return SortedList(runtime, reverse, std::move(keyed));
}

// The items with what they are compared by.
absl::StatusOr<std::vector<std::pair<Value, Value>>> Keyed(
    Runtime& runtime, const Value& self, const Value& attribute,
    bool is_case_sensitive) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(self, &runtime.heap()));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    CASTOR_ASSIGN_OR_RETURN(Value by, Attributed(runtime, item, attribute));
    CASTOR_ASSIGN_OR_RETURN(by, CaseKey(runtime, by, is_case_sensitive));
    keyed.emplace_back(by, item);
  }
  return keyed;
}

absl::StatusOr<Value> Sort(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  Value given[3] = {Value::Bool(false), Value::Bool(false), Value::None()};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "sort",
                              {"reverse", "case_sensitive", "attribute"}, 0,
                              absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(const bool reverse, Truth(given[0]));
  CASTOR_ASSIGN_OR_RETURN(const bool is_case_sensitive, Truth(given[1]));
  // Items compare by lists of what each of "name,size" is: where such are equal
  // nothing asks for their order, so that two may be undefined.
  std::vector<Value> attributes = {given[2]};
  if (given[2].is_string()) {
    attributes.clear();
    for (const absl::string_view one : absl::StrSplit(given[2].text(), ',')) {
      CASTOR_ASSIGN_OR_RETURN(attributes.emplace_back(),
                              runtime.heap().NewString(one));
    }
  }
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> all,
                          Items(self, &runtime.heap()));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : all) {
    std::vector<Value> by;
    for (const Value& attribute : attributes) {
      CASTOR_ASSIGN_OR_RETURN(const Value value,
                              Attributed(runtime, item, attribute));
      CASTOR_ASSIGN_OR_RETURN(by.emplace_back(),
                              CaseKey(runtime, value, is_case_sensitive));
    }
    CASTOR_ASSIGN_OR_RETURN(const Value key,
                            runtime.heap().NewList(std::move(by)));
    keyed.emplace_back(key, item);
  }
  return SortedList(runtime, reverse, std::move(keyed));
}

absl::StatusOr<Value> Unique(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  Value given[2] = {Value::Bool(false), Value::None()};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "unique",
                              {"case_sensitive", "attribute"}, 0,
                              absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(const bool is_case_sensitive, Truth(given[0]));
  CASTOR_ASSIGN_OR_RETURN(const auto keyed,
                          Keyed(runtime, self, given[1], is_case_sensitive));
  std::vector<std::pair<Value, Value>> seen;
  std::vector<Value> items;
  for (const auto& [by, item] : keyed) {
    const size_t before = seen.size();
    CASTOR_RETURN_IF_ERROR(Insert(&seen, by, item, &runtime.heap()));
    if (seen.size() > before) items.push_back(item);
  }
  return NewGenerator(runtime, std::move(items));
}

// min and max: of equal items the first.
template <bool kMax>
absl::StatusOr<Value> Extreme(Runtime& runtime, Value self,
                              const Arguments& arguments) {
  Value given[2] = {Value::Bool(false), Value::None()};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, kMax ? "max" : "min",
                              {"case_sensitive", "attribute"}, 0,
                              absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(const bool is_case_sensitive, Truth(given[0]));
  CASTOR_ASSIGN_OR_RETURN(const auto keyed,
                          Keyed(runtime, self, given[1], is_case_sensitive));
  if (keyed.empty()) {
    return runtime.heap().NewMissing(
        {Missing::Why::kOther, "no item, the sequence was empty", {}, {}});
  }
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    const Value& a = keyed[kMax ? best : i].first;
    const Value& b = keyed[kMax ? i : best].first;
    CASTOR_ASSIGN_OR_RETURN(const bool is_better, Less(a, b, &runtime.heap()));
    if (is_better) best = i;
  }
  return keyed[best].second;
}

absl::StatusOr<Value> Sum(Runtime& runtime, Value self,
                          const Arguments& arguments) {
  Value given[2] = {Value::None(), Value::Int(0)};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "sum", {"attribute", "start"}, 0, absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(self, &runtime.heap()));
  Value sum = given[1];
  if (sum.is_string()) {
    return absl::InvalidArgumentError("sum cannot add strings");
  }
  for (const Value& item : items) {
    CASTOR_ASSIGN_OR_RETURN(const Value value,
                            Attributed(runtime, item, given[0]));
    CASTOR_ASSIGN_OR_RETURN(
        sum, Binary(BinaryOperator::kAdd, sum, value, &runtime.heap()));
  }
  return sum;
}

// The rest of a call's arguments, for the filter or test that its first one
// names.
absl::StatusOr<std::pair<const Callable*, Arguments>> Named(
    const Arguments& arguments, size_t at, bool is_test) {
  const Value& name = arguments.positional[at];
  const Callable* callable = nullptr;
  if (name.is_string()) {
    callable = is_test ? FindTest(name.text()) : FindFilter(name.text());
  }
  if (callable == nullptr || callable->run == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", is_test ? "test " : "filter ",
                     ReprForMessage(name), " is not supported"));
  }
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + at + 1,
                         arguments.positional.end());
  rest.named = arguments.named;
  return std::make_pair(callable, std::move(rest));
}

absl::StatusOr<Value> Map(Runtime& runtime, Value self,
                          const Arguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(self, &runtime.heap()));
  std::vector<Value> mapped;
  if (arguments.positional.empty()) {
    Value attribute = Value::None();
    std::optional<Value> otherwise;
    for (const auto& [name, value] : arguments.named) {
      if (name == "attribute") {
        attribute = value;
      } else if (name == "default") {
        otherwise = value;
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("map has no argument '", name, "'"));
      }
    }
    if (attribute.is_none()) {
      return absl::InvalidArgumentError("map expects a filter's name");
    }
    for (const Value& item : items) {
      CASTOR_ASSIGN_OR_RETURN(mapped.emplace_back(),
                              Attributed(runtime, item, attribute, otherwise));
    }
    return NewGenerator(runtime, std::move(mapped));
  }
  CASTOR_ASSIGN_OR_RETURN(const auto named,
                          Named(arguments, 0, /*is_test=*/false));
  for (const Value& item : items) {
    CASTOR_RETURN_IF_ERROR(runtime.heap().Take(1));
    CASTOR_ASSIGN_OR_RETURN(mapped.emplace_back(),
                            named.first->run(runtime, item, named.second));
  }
  return NewGenerator(runtime, std::move(mapped));
}

// select, reject, selectattr and rejectattr.
template <bool kSelect, bool kOfAttribute>
absl::StatusOr<Value> Pick(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(self, &runtime.heap()));
  Value attribute = Value::None();
  size_t at = 0;
  if (kOfAttribute) {
    if (arguments.positional.empty()) {
      return absl::InvalidArgumentError("selectattr expects an attribute");
    }
    attribute = arguments.positional[at++];
  }
  std::pair<const Callable*, Arguments> named = {nullptr, {}};
  if (arguments.positional.size() > at) {
    CASTOR_ASSIGN_OR_RETURN(named, Named(arguments, at, /*is_test=*/true));
  }
  std::vector<Value> picked;
  for (const Value& item : items) {
    CASTOR_RETURN_IF_ERROR(runtime.heap().Take(1));
    CASTOR_ASSIGN_OR_RETURN(Value value, Attributed(runtime, item, attribute));
    if (named.first != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(value,
                              named.first->run(runtime, value, named.second));
    }
    CASTOR_ASSIGN_OR_RETURN(const bool is_true, Truth(value));
    if (is_true == kSelect) picked.push_back(item);
  }
  return NewGenerator(runtime, std::move(picked));
}

constexpr Callable kFilters[] = {
    {"length", LengthFilter},
    {"count", LengthFilter},
    {"first", First},
    {"last", Last},
    {"list", List},
    {"join", JoinFilter},
    {"items", ItemsFilter},
    {"dictsort", DictSort},
    {"map", Map},
    {"select", Pick<true, false>},
    {"reject", Pick<false, false>},
    {"selectattr", Pick<true, true>},
    {"rejectattr", Pick<false, true>},
    {"reverse", Reverse},
    {"sort", Sort},
    {"unique", Unique},
    {"min", Extreme<false>},
    {"max", Extreme<true>},
    {"sum", Sum},
};

}  // namespace

absl::Span<const Callable> SequenceFilters() { return kFilters; }

}  // namespace castor::text::jinja
