// Programs that apply an operation to each element of one or two arrays, in
// fp32 with one rounding. Operators instantiate them with operations of their
// own.
#ifndef CASTOR_KERNELS_CUDA_ELEMENTWISE_PROGRAM_H_
#define CASTOR_KERNELS_CUDA_ELEMENTWISE_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// y = op(x). y may be x where the types are equal.
template <class Op, class TX, class TY>
struct UnaryProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  const TX* x;
  TY* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    ForEachPlace(block, size, HasRuns(x) && HasRuns(y), [&](const auto& place) {
      auto values = place.LoadFrom(x);
      CASTOR_UNROLL
      for (float& v : values.at) v = Op()(v);
      place.StoreTo(y, values);
    });
  }
};

// y = op(a, b). y may be a or b.
template <class Op, class T>
struct BinaryProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  const T *a, *b;
  T* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const bool runs = HasRuns(a) && HasRuns(b) && HasRuns(y);
    ForEachPlace(block, size, runs, [&](const auto& place) {
      auto values = place.LoadFrom(a);
      const auto others = place.LoadFrom(b);
      CASTOR_UNROLL
      for (int i = 0; i < place.kCount; ++i) {
        values.at[i] = Op()(values.at[i], others.at[i]);
      }
      place.StoreTo(y, values);
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_ELEMENTWISE_PROGRAM_H_
