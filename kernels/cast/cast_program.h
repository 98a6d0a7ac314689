// A conversion between types, and a copy.
#ifndef CASTOR_KERNELS_CAST_CAST_PROGRAM_H_
#define CASTOR_KERNELS_CAST_CAST_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

struct CopyOp {
  CASTOR_HD float operator()(float x) const { return x; }
};

// y = x, bit by bit.
template <class T>
struct CopyProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  const T* x;
  T* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    ForEachElement(block, size, [&](int64_t e) { y[e] = x[e]; });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CAST_CAST_PROGRAM_H_
