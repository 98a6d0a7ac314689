// What attention's backward pass takes from the rows first. Source: Dao,
// "FlashAttention-2", 2023, algorithm 2: D = rowsum(dO o O).
#ifndef CASTOR_KERNELS_ATTENTION_DELTA_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_DELTA_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// delta [B, H, T] = out . dout: a warp per row.
template <class T>
struct AttentionDeltaProgram {
  static constexpr int kRows = 8;
  static constexpr int kThreads = kRows * kWarp;
  using Shared = NoShared;

  AttentionOperands<T> of;
  int64_t rows;  // B H T
  const T *out, *dout;
  float* delta;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    typename Block::template PerThread<float> sum;
    block.EachUnsynced([&](int t) {
      sum[t] = 0.0f;
      const int64_t row = block.index() * kRows + t / kWarp;
      if (row >= rows) return;
      const int64_t head = row / of.band.queries;
      const T* const a = of.InOut(out, head).at(row % of.band.queries);
      const T* const b = of.InOut(dout, head).at(row % of.band.queries);
      for (int64_t d = t % kWarp; d < of.head_size; d += kWarp) {
        sum[t] = Fma(Load(a + d), Load(b + d), sum[t]);
      }
    });
    block.Rejoin();
    block.WarpSum(sum);
    block.EachUnsynced([&](int t) {
      const int64_t row = block.index() * kRows + t / kWarp;
      if (row < rows && t % kWarp == 0) delta[row] = sum[t];
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_DELTA_PROGRAM_H_
