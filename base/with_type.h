// All element types, and dispatch from a run-time DType to a compile-time type.
#ifndef CASTOR_BASE_WITH_TYPE_H_
#define CASTOR_BASE_WITH_TYPE_H_

#include "base/check.h"
#include "base/dtype.h"

namespace castor {

inline constexpr DType kAllTypes[] = {DType::kFloat32, DType::kBFloat16,
                                      DType::kFloat16};

// Calls fn(T()) with the type T of `dtype`:
//
//   WithType(dtype, [&]<class T>(T) { Fill(static_cast<T*>(x)); });
template <class Fn>
auto WithType(DType dtype, const Fn& fn) {
  if (dtype == DType::kFloat32) return fn(float());
  if (dtype == DType::kBFloat16) return fn(BFloat16());
  CASTOR_CHECK(dtype == DType::kFloat16);
  return fn(Float16());
}

}  // namespace castor

#endif  // CASTOR_BASE_WITH_TYPE_H_
