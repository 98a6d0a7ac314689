// Sums down columns, of one or two terms per element, in the host's order: rows
// in tiles of kSumRows, the tiles' sums one after the other. A block has
// kSumColumns columns; each of its kSumTiles groups of threads sums one tile.
#ifndef CASTOR_KERNELS_CUDA_COLUMN_SUMS_H_
#define CASTOR_KERNELS_CUDA_COLUMN_SUMS_H_

#include <cstdint>

#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

inline constexpr int kSumRows = 32;
inline constexpr int kSumColumns = 32;
inline constexpr int kSumTiles = 16;

CASTOR_HD int64_t ColumnBlocks(int64_t columns) {
  return (columns + kSumColumns - 1) / kSumColumns;
}

// Terms: term(n, c, sum) adds row n, column c to sum[kTerms]; finish(c, sum)
// takes the total.
template <int kTerms, class Block, class Shared, class Term, class Finish>
CASTOR_HD void SumColumns(Block& block, Shared& shared, int64_t rows,
                          int64_t columns, const Term& term,
                          const Finish& finish) {
  const int64_t first = block.index() * kSumColumns;
  block.Each([&](int t) {
    if (t >= kSumColumns) return;
    for (int k = 0; k < kTerms; ++k) shared.total[k][t] = 0.0f;
  });
  for (int64_t begin = 0; begin < rows; begin += kSumRows * kSumTiles) {
    block.Each([&](int t) {
      const int64_t c = first + t % kSumColumns;
      const int64_t from = begin + int64_t{kSumRows} * (t / kSumColumns);
      if (c >= columns || from >= rows) return;
      float sum[kTerms];
      CASTOR_UNROLL
      for (int k = 0; k < kTerms; ++k) sum[k] = 0.0f;
      const int64_t to = Min<int64_t>(rows, from + kSumRows);
      for (int64_t n = from; n < to; ++n) term(n, c, sum);
      CASTOR_UNROLL
      for (int k = 0; k < kTerms; ++k) {
        shared.sum[k][t / kSumColumns][t % kSumColumns] = sum[k];
      }
    });
    block.Each([&](int t) {
      if (t >= kSumColumns || first + t >= columns) return;
      for (int k = 0; k < kTerms; ++k) {
        float total = shared.total[k][t];
        for (int i = 0; i < kSumTiles; ++i) {
          if (begin + int64_t{kSumRows} * i >= rows) break;
          total = Add(total, shared.sum[k][i][t]);
        }
        shared.total[k][t] = total;
      }
    });
  }
  block.Each([&](int t) {
    if (t >= kSumColumns || first + t >= columns) return;
    float total[kTerms];
    CASTOR_UNROLL
    for (int k = 0; k < kTerms; ++k) total[k] = shared.total[k][t];
    finish(first + t, total);
  });
}

template <int kTerms>
struct SumColumnsShared {
  float total[kTerms][kSumColumns];
  float sum[kTerms][kSumTiles][kSumColumns];
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_COLUMN_SUMS_H_
