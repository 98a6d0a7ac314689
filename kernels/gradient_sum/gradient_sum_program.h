// The sum of micro batches' gradients, with the bits of the host's (cpu.cc).
#ifndef CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_PROGRAM_H_
#define CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// sum (+)= gradient; payload = master rounded. See
// kernels/gradient_sum/gradient_sum.h.
template <class T>
struct AccumulateProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  T* payload;
  float* sum;
  const float* master;
  bool assign, restore;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const bool runs =
        HasRuns(payload) && HasRuns(sum) && (!restore || HasRuns(master));
    ForEachPlace(block, size, runs, [&](const auto& place) {
      auto total = place.LoadFrom(payload);
      if (!assign) {
        const auto before = place.LoadFrom(sum);
        CASTOR_UNROLL
        for (int i = 0; i < place.kCount; ++i) {
          total.at[i] = Add(before.at[i], total.at[i]);
        }
      }
      place.StoreTo(sum, total);
      if (restore) place.StoreTo(payload, place.LoadFrom(master));
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_PROGRAM_H_
