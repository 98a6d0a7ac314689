// Python's operators.
#ifndef CASTOR_TEXT_CHAT_JINJA_OPERATORS_H_
#define CASTOR_TEXT_CHAT_JINJA_OPERATORS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/chat/jinja/heap.h"
#include "text/chat/jinja/value.h"

namespace castor::text::jinja {

enum class BinaryOperator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPower,
};

enum class Comparison : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};

// Each function below gives InvalidArgument where Python raises an error or an
// int has more than 64 bits, and ResourceExhausted where the heap's bounds are
// reached.
absl::StatusOr<Value> Binary(BinaryOperator op, const Value& left,
                             const Value& right, Heap* heap);
absl::StatusOr<Value> Negative(const Value& value);
absl::StatusOr<Value> Positive(const Value& value);
absl::StatusOr<bool> Compare(Comparison op, const Value& left,
                             const Value& right, Heap* heap);
absl::StatusOr<bool> Equal(const Value& left, const Value& right, Heap* heap,
                           int depth = 0);
absl::StatusOr<bool> Less(const Value& left, const Value& right, Heap* heap,
                          int depth = 0);
// Returns `item in container`.
absl::StatusOr<bool> Contains(const Value& container, const Value& item,
                              Heap* heap);
absl::StatusOr<bool> Truth(const Value& value);

// Sorts *order by key(item), stably. The first error of a comparison ends it.
template <class T, class Key>
absl::Status SortBy(const Key& key, bool reverse, Heap* heap,
                    std::vector<T>* order) {
  absl::Status error;
  const auto before = [&](const T& a, const T& b) {
    if (!error.ok()) return false;
    const absl::StatusOr<bool> less = Less(key(a), key(b), heap);
    if (!less.ok()) error = less.status();
    return less.ok() && *less;
  };
  // Python reverses the order of unequal items alone.
  if (reverse) std::reverse(order->begin(), order->end());
  std::stable_sort(order->begin(), order->end(), before);
  if (reverse) std::reverse(order->begin(), order->end());
  return error;
}

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_OPERATORS_H_
