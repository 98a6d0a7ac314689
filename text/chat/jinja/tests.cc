// jinja2's tests: `value is name`.
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/callable.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/python_text.h"
#include "text/chat/jinja/runtime.h"
#include "text/chat/jinja/string_methods.h"

namespace castor::text::jinja {
namespace {

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsBoolean(const Value& value) { return value.is(Kind::kBool); }
bool IsTrue(const Value& value) { return IsBoolean(value) && value.boolean(); }
bool IsFalse(const Value& value) {
  return IsBoolean(value) && !value.boolean();
}
bool IsIntegerTest(const Value& value) { return value.is(Kind::kInt); }
bool IsFloat(const Value& value) { return value.is(Kind::kFloat); }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is(Kind::kDict); }
bool IsEscaped(const Value& value) { return value.is_markup(); }
bool IsCallable(const Value& value) { return value.is(Kind::kFunction); }
// Returns true for a value that has a length and can be indexed; an undefined
// value has both.
bool IsSequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is(Kind::kDict) ||
         value.is_indexed();
}

template <bool (*kIs)(const Value&)>
absl::StatusOr<Value> Simple(Runtime&, Value self, const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "this test", {}, 0, {}));
  return Value::Bool(kIs(self));
}

template <Comparison kComparison>
absl::StatusOr<Value> Compared(Runtime& runtime, Value self,
                               const Arguments& arguments) {
  Value given[1];
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "this test", {"other"}, 1, absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(
      const bool is_true,
      Compare(kComparison, self, given[0], &runtime.heap()));
  return Value::Bool(is_true);
}

// value % divisor == rest
absl::StatusOr<Value> HasRest(Runtime& runtime, const Value& value,
                              int64_t divisor, int64_t rest) {
  CASTOR_ASSIGN_OR_RETURN(const Value is,
                          Binary(BinaryOperator::kRemainder, value,
                                 Value::Int(divisor), &runtime.heap()));
  CASTOR_ASSIGN_OR_RETURN(const bool is_same,
                          Equal(is, Value::Int(rest), &runtime.heap()));
  return Value::Bool(is_same);
}

template <int64_t kRest>
absl::StatusOr<Value> Parity(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "this test", {}, 0, {}));
  return HasRest(runtime, self, 2, kRest);
}

absl::StatusOr<Value> DivisibleBy(Runtime& runtime, Value self,
                                  const Arguments& arguments) {
  Value given[1];
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "divisibleby", {"num"}, 1, absl::MakeSpan(given)));
  if (!given[0].is_integer()) {
    return absl::InvalidArgumentError("divisibleby expects an integer");
  }
  return HasRest(runtime, self, given[0].integer(), 0);
}

absl::StatusOr<Value> SameAs(Runtime&, Value self, const Arguments& arguments) {
  Value given[1];
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "sameas", {"other"}, 1, absl::MakeSpan(given)));
  return Value::Bool(self.IsSame(given[0]));
}

absl::StatusOr<Value> IterableTest(Runtime&, Value self,
                                   const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "iterable", {}, 0, {}));
  return Value::Bool(IsIterable(self));
}

// islower() or isupper() of str, asked of the text of any value.
template <bool kUpper>
absl::StatusOr<Value> CaseTest(Runtime& runtime, Value self,
                               const Arguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(const Value text,
                          StrValue(self, false, &runtime.heap()));
  return Find(StringMethods(), kUpper ? "isupper" : "islower")
      ->run(runtime, text, arguments);
}

constexpr Callable kTests[] = {
    {"defined", Simple<IsDefined>},
    {"undefined", Simple<IsUndefined>},
    {"none", Simple<IsNone>},
    {"boolean", Simple<IsBoolean>},
    {"true", Simple<IsTrue>},
    {"false", Simple<IsFalse>},
    {"integer", Simple<IsIntegerTest>},
    {"float", Simple<IsFloat>},
    {"number", Simple<IsNumber>},
    {"string", Simple<IsString>},
    {"mapping", Simple<IsMapping>},
    {"sequence", Simple<IsSequence>},
    {"iterable", IterableTest},
    {"callable", Simple<IsCallable>},
    {"escaped", Simple<IsEscaped>},
    {"sameas", SameAs},
    {"in", Compared<Comparison::kIn>},
    {"==", Compared<Comparison::kEqual>},
    {"eq", Compared<Comparison::kEqual>},
    {"equalto", Compared<Comparison::kEqual>},
    {"!=", Compared<Comparison::kNotEqual>},
    {"ne", Compared<Comparison::kNotEqual>},
    {"<", Compared<Comparison::kLess>},
    {"lt", Compared<Comparison::kLess>},
    {"lessthan", Compared<Comparison::kLess>},
    {"<=", Compared<Comparison::kLessOrEqual>},
    {"le", Compared<Comparison::kLessOrEqual>},
    {">", Compared<Comparison::kGreater>},
    {"gt", Compared<Comparison::kGreater>},
    {"greaterthan", Compared<Comparison::kGreater>},
    {">=", Compared<Comparison::kGreaterOrEqual>},
    {"ge", Compared<Comparison::kGreaterOrEqual>},
    {"even", Parity<0>},
    {"odd", Parity<1>},
    {"divisibleby", DivisibleBy},
    {"lower", CaseTest<false>},
    {"upper", CaseTest<true>},
    {"filter", nullptr},
    {"test", nullptr},
};

}  // namespace

const Callable* FindTest(absl::string_view name) { return Find(kTests, name); }

}  // namespace castor::text::jinja
