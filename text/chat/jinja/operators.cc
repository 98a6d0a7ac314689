#include "text/chat/jinja/operators.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/percent_format.h"
#include "text/chat/jinja/python_text.h"
#include "text/chat/jinja/string_methods.h"

namespace castor::text::jinja {
namespace {

absl::string_view Sign(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kRemainder:
      return "%";
    case BinaryOperator::kPower:
      return "**";
  }
  return "";
}

absl::Status TooLarge() {
  return absl::InvalidArgumentError(
      "an integer of more than 64 bits is not supported");
}

absl::Status DivisionByZero() {
  return absl::InvalidArgumentError("division by zero");
}

absl::StatusOr<Value> Power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return DivisionByZero();
    return Value::Float(
        std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  if (base == 0 || base == 1) return Value::Int(exponent == 0 ? 1 : base);
  if (base == -1) return Value::Int(exponent % 2 == 0 ? 1 : -1);
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return TooLarge();
  }
  return Value::Int(result);
}

absl::StatusOr<Value> BinaryIntegers(BinaryOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case BinaryOperator::kDivide:
      if (b == 0) return DivisionByZero();
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kRemainder: {
      if (b == 0) return DivisionByZero();
      if (b == -1) {  // the smallest integer has no opposite
        if (op == BinaryOperator::kRemainder) return Value::Int(0);
        if (a == std::numeric_limits<int64_t>::min()) return TooLarge();
        return Value::Int(-a);
      }
      int64_t quotient = a / b, rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        --quotient;
      }
      return Value::Int(op == BinaryOperator::kRemainder ? rest : quotient);
    }
    case BinaryOperator::kPower:
      return Power(a, b);
  }
  return Value();
}

absl::StatusOr<Value> BinaryFloats(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::Float(a + b);
    case BinaryOperator::kSubtract:
      return Value::Float(a - b);
    case BinaryOperator::kMultiply:
      return Value::Float(a * b);
    case BinaryOperator::kDivide:
      if (b == 0) return DivisionByZero();
      return Value::Float(a / b);
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kRemainder: {
      if (b == 0) return DivisionByZero();
      double rest = std::fmod(a, b);
      double quotient = (a - rest) / b;
      if (rest != 0) {
        if ((b < 0) != (rest < 0)) {
          rest += b;
          quotient -= 1;
        }
      } else {
        rest = std::copysign(0.0, b);
      }
      if (op == BinaryOperator::kRemainder) return Value::Float(rest);
      if (quotient == 0) return Value::Float(std::copysign(0.0, a / b));
      const double floor = std::floor(quotient);
      return Value::Float(quotient - floor > 0.5 ? floor + 1 : floor);
    }
    case BinaryOperator::kPower: {
      if (a == 0 && b < 0) return DivisionByZero();
      const double power = std::pow(a, b);
      if (std::isnan(power) || std::isinf(power)) {
        return absl::InvalidArgumentError("a power is too large, or no number");
      }
      return Value::Float(power);
    }
  }
  return Value();
}

// Text of a + b: what is no Markup is escaped beside one.
absl::StatusOr<Value> Concatenate(const Value& left, const Value& right,
                                  Heap* heap) {
  const bool is_markup = left.is_markup() || right.is_markup();
  TextBuilder out(heap);
  for (const Value& part : {left, right}) {
    if (is_markup && !part.is_markup()) {
      AppendEscaped(part.text(), &out);
    } else {
      out.Append(part.text());
    }
  }
  return std::move(out).Make(is_markup);
}

absl::StatusOr<Value> Repeat(const Value& value, int64_t count, Heap* heap) {
  count = std::max<int64_t>(count, 0);
  CASTOR_ASSIGN_OR_RETURN(const int64_t length, Length(value));
  if (length == 0) count = 0;
  // Each repeat takes at least a byte.
  if (count > heap->bytes_left()) return heap->TooManyBytes();
  if (value.is_string()) {
    TextBuilder out(heap);
    out.AppendTimes(value.text(), count);
    return std::move(out).Make(value.is_markup());
  }
  const auto& items = value.sequence().items;
  if (count * length > heap->bytes_left() / int64_t{sizeof(Value)}) {
    return heap->TooManyBytes();
  }
  std::vector<Value> repeated;
  repeated.reserve(count * length);
  for (int64_t i = 0; i < count; ++i) {
    repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return heap->NewSequence(value.sequence().type, std::move(repeated));
}

// -1, 0 or 1, or 2 where one is not a number. An int and a float compare by
// their exact values.
int CompareNumbers(const Value& left, const Value& right) {
  const auto order = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
  if (left.is_integer() && right.is_integer()) {
    return order(left.integer(), right.integer());
  }
  const double a = left.number(), b = right.number();
  if (std::isnan(a) || std::isnan(b)) return 2;
  if (left.is(Kind::kFloat) == right.is(Kind::kFloat) || a != b) {
    return order(a, b);
  }
  // Equal once rounded; beyond 64 bits the float is the larger one.
  const double real = left.is(Kind::kFloat) ? a : b;
  if (real >= 0x1p63) return left.is(Kind::kFloat) ? 1 : -1;
  const int64_t whole = static_cast<int64_t>(real);
  return left.is(Kind::kFloat) ? order(whole, right.integer())
                               : order(left.integer(), whole);
}

absl::Status NoOrder(absl::string_view sign, const Value& left,
                     const Value& right) {
  if (left.is_undefined()) return UndefinedError(left);
  if (right.is_undefined()) return UndefinedError(right);
  return absl::InvalidArgumentError(
      absl::StrCat("'", sign, "' not supported between instances of '",
                   TypeName(left), "' and '", TypeName(right), "'"));
}

}  // namespace

absl::StatusOr<Value> Binary(BinaryOperator op, const Value& left,
                             const Value& right, Heap* heap) {
  if (left.is_undefined()) return UndefinedError(left);
  if (op == BinaryOperator::kRemainder && left.is_string() &&
      !left.is_markup()) {
    return PercentFormat(left.text(), right, heap);
  }
  if (right.is_undefined()) return UndefinedError(right);
  if (left.is_integer() && right.is_integer()) {
    return BinaryIntegers(op, left.integer(), right.integer());
  }
  if (left.is_number() && right.is_number()) {
    return BinaryFloats(op, left.number(), right.number());
  }
  if (op == BinaryOperator::kAdd) {
    if (left.is_string() && right.is_string()) {
      return Concatenate(left, right, heap);
    }
    if (left.is_list_or_tuple() && right.is_list_or_tuple() &&
        left.sequence().type == right.sequence().type) {
      CASTOR_ASSIGN_OR_RETURN(std::vector<Value> items, Items(left, heap));
      const auto& more = right.sequence().items;
      CASTOR_RETURN_IF_ERROR(heap->Take(more.size() / 8));
      items.insert(items.end(), more.begin(), more.end());
      return heap->NewSequence(left.sequence().type, std::move(items));
    }
  }
  if (op == BinaryOperator::kMultiply) {
    const auto repeats = [](const Value& value) {
      return value.is_string() || value.is_list_or_tuple();
    };
    if (repeats(left) && right.is_integer()) {
      return Repeat(left, right.integer(), heap);
    }
    if (left.is_integer() && repeats(right)) {
      return Repeat(right, left.integer(), heap);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unsupported operand types for ", Sign(op), ": '",
                   TypeName(left), "' and '", TypeName(right), "'"));
}

absl::StatusOr<Value> Negative(const Value& value) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is(Kind::kFloat)) return Value::Float(-value.number());
  if (!value.is_integer()) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad operand type for unary -: '", TypeName(value), "'"));
  }
  int64_t result = 0;
  if (__builtin_sub_overflow(int64_t{0}, value.integer(), &result)) {
    return TooLarge();
  }
  return Value::Int(result);
}

absl::StatusOr<Value> Positive(const Value& value) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is(Kind::kFloat)) return value;
  if (value.is_integer()) return Value::Int(value.integer());
  return absl::InvalidArgumentError(
      absl::StrCat("bad operand type for unary +: '", TypeName(value), "'"));
}

absl::StatusOr<bool> Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.number() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kSequence:
      return value.sequence().type == SequenceType::kGenerator ||
             !value.sequence().items.empty();
    case Kind::kDict:
      return !value.dict().items.empty();
    default:
      return true;
  }
}

absl::StatusOr<bool> Equal(const Value& left, const Value& right, Heap* heap,
                           int depth) {
  CASTOR_RETURN_IF_ERROR(Heap::CheckDepth(depth));
  CASTOR_RETURN_IF_ERROR(heap->Take(1));
  if (left.is_number() && right.is_number()) {
    return CompareNumbers(left, right) == 0;
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      CASTOR_RETURN_IF_ERROR(heap->TakeText(
          left.text().size() == right.text().size() ? left.text().size() : 0));
      return left.text() == right.text();
    case Kind::kSequence: {
      if (left.IsSame(right)) return true;
      const Sequence& a = left.sequence();
      const Sequence& b = right.sequence();
      // Views of values and generators are equal to themselves alone.
      if (a.type != b.type || a.type == SequenceType::kValues ||
          a.type == SequenceType::kGenerator ||
          a.items.size() != b.items.size()) {
        return false;
      }
      for (size_t i = 0; i < a.items.size(); ++i) {
        CASTOR_ASSIGN_OR_RETURN(const bool is_same,
                                Equal(a.items[i], b.items[i], heap, depth + 1));
        if (!is_same) return false;
      }
      return true;
    }
    case Kind::kDict: {
      const Dict& a = left.dict();
      if (a.items.size() != right.dict().items.size()) return false;
      for (const auto& [key, value] : a.items) {
        CASTOR_ASSIGN_OR_RETURN(const Value* other,
                                Lookup(right.dict(), key, heap));
        if (other == nullptr) return false;
        CASTOR_ASSIGN_OR_RETURN(const bool is_same,
                                Equal(value, *other, heap, depth + 1));
        if (!is_same) return false;
      }
      return true;
    }
    default:
      return left.IsSame(right);
  }
}

absl::StatusOr<bool> Less(const Value& left, const Value& right, Heap* heap,
                          int depth) {
  CASTOR_RETURN_IF_ERROR(Heap::CheckDepth(depth));
  CASTOR_RETURN_IF_ERROR(heap->Take(1));
  if (left.is_number() && right.is_number()) {
    return CompareNumbers(left, right) == -1;
  }
  if (left.is_string() && right.is_string()) {
    CASTOR_RETURN_IF_ERROR(
        heap->TakeText(std::min(left.text().size(), right.text().size())));
    // The order of UTF-8 is that of code points.
    return left.text() < right.text();
  }
  if (left.is_list_or_tuple() && right.is_list_or_tuple() &&
      left.sequence().type == right.sequence().type) {
    const auto& a = left.sequence().items;
    const auto& b = right.sequence().items;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      CASTOR_ASSIGN_OR_RETURN(const bool is_same,
                              Equal(a[i], b[i], heap, depth + 1));
      if (!is_same) return Less(a[i], b[i], heap, depth + 1);
    }
    return a.size() < b.size();
  }
  return NoOrder("<", left, right);
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item,
                              Heap* heap) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (item.is_undefined()) return UndefinedError(item);
      if (!item.is_string()) {
        return absl::InvalidArgumentError(
            absl::StrCat("'in <string>' requires string as left operand, not ",
                         TypeName(item)));
      }
      CASTOR_RETURN_IF_ERROR(
          heap->TakeText(container.text().size() + item.text().size()));
      return FindFrom(container.text(), item.text(), 0) !=
             absl::string_view::npos;
    case Kind::kDict: {
      CASTOR_RETURN_IF_ERROR(CheckKey(item));
      CASTOR_ASSIGN_OR_RETURN(const Value* found,
                              Lookup(container.dict(), item, heap));
      return found != nullptr;
    }
    case Kind::kSequence: {
      CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                              Items(container, heap));
      for (const Value& other : items) {
        CASTOR_ASSIGN_OR_RETURN(const bool is_same, Equal(other, item, heap));
        if (is_same) return true;
      }
      return false;
    }
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "argument of type '", TypeName(container), "' is not iterable"));
  }
}

absl::StatusOr<bool> Compare(Comparison op, const Value& left,
                             const Value& right, Heap* heap) {
  switch (op) {
    case Comparison::kEqual:
      return Equal(left, right, heap);
    case Comparison::kNotEqual: {
      CASTOR_ASSIGN_OR_RETURN(const bool is_same, Equal(left, right, heap));
      return !is_same;
    }
    case Comparison::kLess:
      return Less(left, right, heap);
    case Comparison::kGreater:
      return Less(right, left, heap);
    case Comparison::kLessOrEqual:
    case Comparison::kGreaterOrEqual: {
      if (left.is_number() && right.is_number()) {
        const int order = CompareNumbers(left, right);
        return order == 0 || order == (op == Comparison::kLessOrEqual ? -1 : 1);
      }
      const bool is_less = op == Comparison::kLessOrEqual;
      CASTOR_ASSIGN_OR_RETURN(
          const bool is_beyond,
          Less(is_less ? right : left, is_less ? left : right, heap));
      return !is_beyond;
    }
    case Comparison::kIn:
      return Contains(right, left, heap);
    case Comparison::kNotIn: {
      CASTOR_ASSIGN_OR_RETURN(const bool is_in, Contains(right, left, heap));
      return !is_in;
    }
  }
  return false;
}

}  // namespace castor::text::jinja
