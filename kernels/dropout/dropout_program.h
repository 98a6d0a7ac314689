// Dropout, with the bits of the host's (cpu.cc).
#ifndef CASTOR_KERNELS_DROPOUT_DROPOUT_PROGRAM_H_
#define CASTOR_KERNELS_DROPOUT_DROPOUT_PROGRAM_H_

#include <cstdint>

#include "base/philox.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// y = dropout(x) (+ residual). A run's elements share a run of the generator.
template <class T>
struct DropoutProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  RandomKey key;
  uint32_t threshold;
  float scale;
  const T *x, *residual;  // residual may be null
  T* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const bool runs =
        HasRuns(x) && HasRuns(y) && (residual == nullptr || HasRuns(residual));
    ForEachPlace(block, size, runs, [&](const auto& place) {
      WordReader words(key);
      auto values = place.LoadFrom(x);
      CASTOR_UNROLL
      for (int i = 0; i < place.kCount; ++i) {
        const bool keep =
            words.At(static_cast<uint64_t>(place.Element(i))) >= threshold;
        values.at[i] = keep ? Mul(values.at[i], scale) : 0.0f;
      }
      if (residual != nullptr) {
        const auto others = place.LoadFrom(residual);
        CASTOR_UNROLL
        for (int i = 0; i < place.kCount; ++i) {
          values.at[i] = Add(values.at[i], others.at[i]);
        }
      }
      place.StoreTo(y, values);
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_DROPOUT_DROPOUT_PROGRAM_H_
