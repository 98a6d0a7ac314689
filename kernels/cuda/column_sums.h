// Sums down columns in the host's order: rows in tiles of kSumRows, the tiles'
// sums one after the other.
//
// A block has kSumColumns columns. There are few blocks, so each needs many
// loads in flight: it copies a slab of tiles ahead into shared memory while its
// threads, one for each tile and column, sum the slab before.
#ifndef CASTOR_KERNELS_CUDA_COLUMN_SUMS_H_
#define CASTOR_KERNELS_CUDA_COLUMN_SUMS_H_

#include <cstdint>

#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

inline constexpr int kSumRows = 32;
inline constexpr int kSumColumns = 16;

CASTOR_HD int64_t ColumnBlocks(int64_t columns) {
  return (columns + kSumColumns - 1) / kSumColumns;
}

// The part of a program that sums kTerms terms of each element of kMatrices
// matrices [rows, columns] of T, with kVectors fp32 values for each row.
template <class T, int kMatrices, int kVectors, int kTerms>
struct ColumnSums {
  // A slab of 32 KiB.
  static constexpr int kTiles = 64 / static_cast<int>(sizeof(T)) / kMatrices;
  static constexpr int kRows = kTiles * kSumRows;
  static constexpr int kThreads = kTiles * kSumColumns;
  static constexpr int kPerCopy = 16 / static_cast<int>(sizeof(T));
  static constexpr int kCopies = kSumColumns / kPerCopy;  // of a row

  struct Slab {
    // Tiles are a row apart, so that those that a warp reads lie in different
    // banks.
    alignas(16) T at[kMatrices][kTiles][kSumRows + 1][kSumColumns];
    float vectors[kVectors + 1][kTiles][kSumRows + 1];
  };
  struct Shared {
    Slab slabs[2];
    float sums[kTerms][kTiles][kSumColumns];
  };

  int64_t rows, columns;
  int64_t stride;  // elements from one row of a matrix to the next
  const T* matrices[kMatrices];
  const float* vectors[kVectors + 1];

  // add(x, v, sum): x [kMatrices] of one element and v [kVectors] of its row
  // add to sum [kTerms]. finish(c, total) takes column c's total [kTerms].
  template <class Block, class Add, class Finish>
  CASTOR_HD void Run(Block& block, Shared& shared, const Add& add,
                     const Finish& finish) const {
    struct Total {
      float of[kTerms];
    };
    typename Block::template PerThread<Total> totals;
    const int64_t first = block.index() * kSumColumns;
    block.EachUnsynced([&](int t) {
      CASTOR_UNROLL
      for (float& total : totals[t].of) total = 0.0f;
      if (rows > 0) LoadAhead(block, t, 0, first, shared.slabs[0]);
    });
    int stage = 0;
    for (int64_t begin = 0; begin < rows; begin += kRows, stage ^= 1) {
      block.WaitForCopies();
      if (begin + kRows < rows) {
        block.EachUnsynced([&](int t) {
          LoadAhead(block, t, begin + kRows, first, shared.slabs[stage ^ 1]);
        });
      }
      block.Each([&](int t) {
        SumTile(t / kSumColumns, t % kSumColumns, rows - begin,
                shared.slabs[stage], add, shared);
      });
      block.EachUnsynced([&](int t) {
        if (t >= kSumColumns) return;
        const auto add_tile = [&](int i) {
          CASTOR_UNROLL
          for (int k = 0; k < kTerms; ++k) {
            totals[t].of[k] = cuda::Add(totals[t].of[k], shared.sums[k][i][t]);
          }
        };
        if (begin + kRows <= rows) {
          CASTOR_UNROLL
          for (int i = 0; i < kTiles; ++i) add_tile(i);
        } else {
          for (int i = 0; begin + i * kSumRows < rows; ++i) add_tile(i);
        }
      });
    }
    block.EachUnsynced([&](int t) {
      if (t < kSumColumns && first + t < columns) {
        finish(first + t, totals[t].of);
      }
    });
  }

 private:
  template <class Block>
  CASTOR_HD void LoadAhead(Block& block, int t, int64_t begin, int64_t first,
                           Slab& slab) const {
    bool whole = columns % kPerCopy == 0 && stride % kPerCopy == 0;
    for (const T* matrix : matrices) {
      whole = whole && reinterpret_cast<uintptr_t>(matrix) % 16 == 0;
    }
    // Calls f(to, from, row, column) for the thread's copies of matrix k.
    const auto each = [&](int k, int e, const auto& f) {
      const int row = e / kCopies;
      const int64_t column = first + e % kCopies * kPerCopy;
      f(&slab.at[k][row / kSumRows][row % kSumRows][column - first],
        matrices[k] + (begin + row) * stride + column, begin + row, column);
    };
    CASTOR_UNROLL
    for (int k = 0; k < kMatrices; ++k) {
      if (whole) {
        CASTOR_UNROLL
        for (int e = t; e < kRows * kCopies; e += kThreads) {
          each(k, e, [&](T* to, const T* from, int64_t row, int64_t column) {
            const bool inside = row < rows && column < columns;
            block.CopyAhead(to, inside ? from : matrices[k], inside);
          });
        }
        continue;
      }
      CASTOR_NO_UNROLL
      for (int e = t; e < kRows * kCopies; e += kThreads) {
        each(k, e, [&](T* to, const T* from, int64_t row, int64_t column) {
          CASTOR_NO_UNROLL
          for (int i = 0; i < kPerCopy; ++i) {
            to[i] = row < rows && column + i < columns ? from[i] : T(0.0f);
          }
        });
      }
    }
    CASTOR_UNROLL
    for (int k = 0; k < kVectors; ++k) {
      for (int row = t; row < kRows && begin + row < rows; row += kThreads) {
        slab.vectors[k][row / kSumRows][row % kSumRows] =
            vectors[k][begin + row];
      }
    }
  }

  // `left` is the number of rows from the slab's first one on.
  template <class Add>
  CASTOR_HD static void SumTile(int tile, int column, int64_t left,
                                const Slab& slab, const Add& add,
                                Shared& shared) {
    float sum[kTerms];
    CASTOR_UNROLL
    for (float& s : sum) s = 0.0f;
    const auto add_row = [&](int r) {
      float x[kMatrices];
      float v[kVectors + 1];
      CASTOR_UNROLL
      for (int k = 0; k < kMatrices; ++k) {
        x[k] = Load(&slab.at[k][tile][r][column]);
      }
      CASTOR_UNROLL
      for (int k = 0; k < kVectors; ++k) {
        v[k] = slab.vectors[k][tile][r];
      }
      add(x, v, sum);
    };
    // Adding a row after the end would still turn -0 into 0.
    if (left >= (tile + 1) * kSumRows) {
      CASTOR_UNROLL
      for (int r = 0; r < kSumRows; ++r) add_row(r);
    } else {
      for (int r = 0; tile * kSumRows + r < left; ++r) add_row(r);
    }
    CASTOR_UNROLL
    for (int k = 0; k < kTerms; ++k) shared.sums[k][tile][column] = sum[k];
  }
};

// Writes a column's total; with `accumulate` adds it to the present value.
template <class T>
CASTOR_HD void PutTotal(float total, T* to, bool accumulate) {
  Store(accumulate ? Add(Load(to), total) : total, to);
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_COLUMN_SUMS_H_
