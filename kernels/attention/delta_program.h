// The first kernel of attention's backward pass: computes delta of the rows,
// and initialises the turns (turns.h). Source: Dao, "FlashAttention-2", 2023,
// algorithm 2: D = rowsum(dO o O).
#ifndef CASTOR_KERNELS_ATTENTION_DELTA_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_DELTA_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// delta [B, H, T] = out . dout: four lanes per row, whose sums go through one
// tree. Lane i adds channels in their order: the runs of four i, i + 4, ...
template <class T>
struct AttentionDeltaProgram {
  static constexpr int kThreads = 256;
  static constexpr int kLanes = 4;  // of a row
  static constexpr int kRows = kThreads / kLanes;
  using Shared = NoShared;

  AttentionOperands<T> of;
  int64_t tiles;  // of kRows queries of a head; blocks: that many a head
  const T *out, *dout;
  float* delta;
  // The counters of turns, which this kernel sets to 0: the blocks of a head
  // clear the head's, and the first block the one after all of them.
  uint32_t* counters;
  int64_t counters_of_head, counters_of_block, all_counters;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const uint32_t at = static_cast<uint32_t>(block.index());
    const uint32_t head = at / static_cast<uint32_t>(tiles);
    const int64_t first =
        int64_t{at - head * static_cast<uint32_t>(tiles)} * kRows;
    const RowsOfHead<const T> outs = of.InOut(out, head);
    const RowsOfHead<const T> douts = of.InOut(dout, head);
    const int size = static_cast<int>(of.head_size);
    typename Block::template PerThread<float> sum;
    block.EachUnsynced([&](int t) {
      const int64_t begin = first / kRows * counters_of_block;
      const int64_t end = Min(begin + counters_of_block, counters_of_head);
      for (int64_t i = begin + t; i < end; i += kThreads) {
        counters[head * counters_of_head + i] = 0;
      }
      if (at == 0 && t == 0) counters[all_counters] = 0;
      sum[t] = 0.0f;
      const int64_t row = first + t / kLanes;
      if (row >= of.band.queries) return;
      const T* const a = outs.at(row);
      const T* const b = douts.at(row);
      for (int d = t % kLanes * kRun; d < size; d += kLanes * kRun) {
        float x[kRun] = {}, y[kRun] = {};
        if (of.whole_vectors) {
          LoadRun(a + d, x);
          LoadRun(b + d, y);
        } else {
          const int count = Min(kRun, size - d);
          for (int i = 0; i < count; ++i) {
            x[i] = Load(a + d + i);
            y[i] = Load(b + d + i);
          }
        }
        CASTOR_UNROLL
        for (int i = 0; i < kRun; ++i) sum[t] = Fma(x[i], y[i], sum[t]);
      }
    });
    block.Rejoin();
    block.QuadSum([&](int t) -> float& { return sum[t]; });
    block.EachUnsynced([&](int t) {
      const int64_t row = first + t / kLanes;
      if (row >= of.band.queries || t % kLanes != 0) return;
      delta[of.InRows(head, row)] = sum[t];
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_DELTA_PROGRAM_H_
