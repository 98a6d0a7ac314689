#include "device/comm/combine_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace castor {
namespace {

// a (op)= b.
template <typename T>
void Combine(ReduceOp op, const T* b, int64_t n, T* a) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      if (std::isnan(a[i])) continue;
      if (std::isnan(b[i])) {
        a[i] = b[i];
        continue;
      }
    }
    switch (op) {
      case ReduceOp::kSum:
        if constexpr (std::is_same_v<T, int64_t>) {
          a[i] = static_cast<int64_t>(static_cast<uint64_t>(a[i]) +
                                      static_cast<uint64_t>(b[i]));
        }
        break;
      case ReduceOp::kMin:
        a[i] = std::min(a[i], b[i]);
        break;
      case ReduceOp::kMax:
        a[i] = std::max(a[i], b[i]);
        break;
      case ReduceOp::kNone:
        break;
    }
  }
}

template <typename T>
void CombineTyped(ReduceOp op, const std::byte* rows, int num_rows,
                  int64_t row_bytes, void* out) {
  T* const values = static_cast<T*>(out);
  std::memcpy(out, rows, row_bytes);
  const int64_t n = row_bytes / static_cast<int64_t>(sizeof(T));
  for (int row = 1; row < num_rows; ++row) {
    Combine(op, reinterpret_cast<const T*>(rows + row * row_bytes), n, values);
  }
}

}  // namespace

void CombineRows(ReduceOp op, ElementType type, const std::byte* rows,
                 int num_rows, int64_t row_bytes, void* out) {
  if (type == ElementType::kFloat32) {
    CombineTyped<float>(op, rows, num_rows, row_bytes, out);
  } else {
    CombineTyped<int64_t>(op, rows, num_rows, row_bytes, out);
  }
}

}  // namespace castor
