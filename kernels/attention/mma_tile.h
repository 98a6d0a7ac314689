// The common parts of attention's passes on the matrix units: tiles of 16-bit
// rows, and a warp's products with them.
//
// A block keeps some rows (queries, or keys) and steps through tiles of the
// others. Each of its warps has 16 kM of the rows it keeps, in all products of
// a step: scores, rounded and packed, are the left operand of the next product
// without leaving their registers (matrix_unit.h), so that shared memory has
// only operands and warps meet once a step.
#ifndef CASTOR_KERNELS_ATTENTION_MMA_TILE_H_
#define CASTOR_KERNELS_ATTENTION_MMA_TILE_H_

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/matrix_unit.h"

namespace castor::kernels::cuda {

inline constexpr int kMmaWarps = 4;
inline constexpr int kMmaThreads = kMmaWarps * kWarp;
inline constexpr float kLog2E = 1.44269504f;

// A lane's part of its warp's [16 kM, 8 kN]; fragment at[m][n] is the C of rows
// 16 m on and columns 8 n on.
template <int kM, int kN>
struct MmaSums {
  float at[kM][kN][4];

  CASTOR_HD void Clear() {
    CASTOR_UNROLL
    for (int m = 0; m < kM; ++m) {
      CASTOR_UNROLL
      for (int n = 0; n < kN; ++n) {
        CASTOR_UNROLL
        for (float& v : at[m][n]) v = 0.0f;
      }
    }
  }
};

// Columns n of a 32-bit word's keys.
inline constexpr int kMmaPerWord = 32 / kMmaColumns;

// Return the place of thread t's element at[m][n][i]: its row of the block, and
// its column.
template <int kM>
CASTOR_HD int MmaRow(int t, int m, int i) {
  return t / kWarp * kM * kMmaRows + m * kMmaRows + t % kWarp / 4 + i / 2 * 8;
}
CASTOR_HD int MmaColumn(int t, int n, int i) {
  return n * kMmaColumns + t % 4 * 2 + i % 2;
}

// Starts to load rows [begin, begin + kCount) of `from`, with zeros after the
// last one and after the head's size. Called by each thread; the rows are there
// after the next WaitForCopies.
template <class Block, class T, int kCount, int kD>
CASTOR_HD void LoadAhead(Block& block, int t, const AttentionOperands<T>& of,
                         const RowsOfHead<const T>& from, int64_t begin,
                         MatrixRows<T, kCount, kD>& tile) {
  // A thread has the same vector of every kApart-th row.
  constexpr int kApart = kMmaThreads / MatrixRows<T, kCount, kD>::kVectors;
  static_assert(kCount % kApart == 0);
  const int vector = t % MatrixRows<T, kCount, kD>::kVectors;
  const int row = t / MatrixRows<T, kCount, kD>::kVectors;
  const int d = vector * kVectorElements;
  const T* const source = from.at(begin + row) + d;
  const int rows = static_cast<int>(Min<int64_t>(from.count - begin, kCount));
  const int width = static_cast<int>(of.head_size) - d;  // may be negative
  if (of.whole_vectors) {
    CASTOR_UNROLL
    for (int r = 0; r < kCount; r += kApart) {
      const bool inside = row + r < rows && width > 0;
      block.CopyAhead(tile.Vector(row + r, vector),
                      inside ? source + r * from.stride : from.first, inside);
    }
    return;
  }
  CASTOR_NO_UNROLL
  for (int r = 0; r < kCount; r += kApart) {
    T* const to = tile.Vector(row + r, vector);
    CASTOR_NO_UNROLL
    for (int i = 0; i < kVectorElements; ++i) {
      const bool inside = row + r < rows && i < width;
      to[i] = inside ? source[r * from.stride + i] : T(0.0f);
    }
  }
}

// Sets first[i], for i in [0, count), to the place where the document of query
// `begin` + i of a head begins; after the last query, to that of the last one,
// so that they never fall. Called by each thread; they may be read after the
// next barrier.
template <class T>
CASTOR_HD void FillFirstKeys(int t, const AttentionOperands<T>& of,
                             int64_t head, int64_t begin, int count,
                             int* first) {
  const AttentionBand band = of.BandOf(head);
  for (int i = t; i < count; i += kMmaThreads) {
    first[i] = band.documents == nullptr
                   ? 0
                   : band.documents[Min(begin + i, band.queries - 1)].begin;
  }
}

// The scores [rows, columns] of a tile that count: those of keys below `end`
// with low <= column - row <= high, of a query's keys those from its `first`
// key on.
template <bool kRowsAreKeys>
struct TileMask {
  int end, low, high;
  const int* first;  // of the tile's queries (FillFirstKeys)
  int key;           // the tile's first

  // The band where row 0 is key or query `row`, and column 0 is query or key
  // `column`. Queries after the last one add nothing to a sum (their q and dout
  // are loaded as zeros).
  CASTOR_HD static TileMask Of(const AttentionBand& band, int64_t row,
                               int64_t column, const int* first) {
    // The distance of column 0's place from row 0's.
    const int64_t apart = kRowsAreKeys ? column + band.ahead() - row
                                       : column - (row + band.ahead());
    // A row's columns are its keys, or the queries that see it.
    const int64_t before = kRowsAreKeys ? band.mask.after : band.mask.before;
    const int64_t after = kRowsAreKeys ? band.mask.before : band.mask.after;
    return {ToInt(band.keys - (kRowsAreKeys ? row : column)),
            ToInt(-before - apart), ToInt(after - apart), first,
            static_cast<int>(kRowsAreKeys ? row : column)};
  }

  CASTOR_HD bool Counts(int row, int column) const {
    return (kRowsAreKeys ? row : column) < end && column - row >= low &&
           column - row <= high &&
           key + (kRowsAreKeys ? row : column) >=
               first[kRowsAreKeys ? column : row];
  }
  // Returns true if all scores of a tile [rows, columns] count.
  CASTOR_HD bool IsAll(int rows, int columns) const {
    return (kRowsAreKeys ? rows : columns) <= end && 1 - rows >= low &&
           columns - 1 <= high &&
           key >= first[(kRowsAreKeys ? columns : rows) - 1];
  }

 private:
  // Wider than any tile.
  static constexpr int kFar = 1 << 20;
  CASTOR_HD static int ToInt(int64_t x) {
    return static_cast<int>(Max<int64_t>(-kFar, Min<int64_t>(x, kFar)));
  }
};

// Sets masked scores to `value`.
template <int kM, int kN, bool kRowsAreKeys>
CASTOR_HD void Mask(int t, const TileMask<kRowsAreKeys>& mask, float value,
                    MmaSums<kM, kN>& scores) {
  CASTOR_UNROLL
  for (int m = 0; m < kM; ++m) {
    CASTOR_UNROLL
    for (int n = 0; n < kN; ++n) {
      CASTOR_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (!mask.Counts(MmaRow<kM>(t, m, i), MmaColumn(t, n, i))) {
          scores.at[m][n][i] = value;
        }
      }
    }
  }
}

// The bits of the scores that dropout keeps in a tile, kQueries by kKeys; none
// without kDrops.
template <int kQueries, int kKeys, bool kDrops>
struct KeptScores {
  static constexpr int kBits = 32;
  static constexpr int kWords = kKeys / kBits;
  static_assert(kKeys % kBits == 0);
  uint32_t words[kQueries][kWords];

  // Called by each thread; the bits may be read after the next barrier.
  template <class T>
  CASTOR_HD void Fill(int t, const AttentionOperands<T>& of, int64_t head,
                      int64_t query, int64_t key) {
    for (int w = t; w < kQueries * kWords; w += kMmaThreads) {
      const uint64_t element =
          of.Element(head, query + w / kWords, key + w % kWords * kBits);
      words[w / kWords][w % kWords] = KeptBits(of.key, element, of.threshold);
    }
  }
  // Returns the bits of the keys from `key` to the next multiple of 32, from
  // the lowest bit on.
  CASTOR_HD uint32_t From(int query, int key) const {
    return words[query][key / kBits] >> (key % kBits);
  }
};
template <int kQueries, int kKeys>
struct KeptScores<kQueries, kKeys, false> {
  template <class T>
  CASTOR_HD void Fill(int, const AttentionOperands<T>&, int64_t, int64_t,
                      int64_t) {}
};

// The left operand of products with depth 16.
template <int kM>
struct MmaLeft {
  uint32_t at[kM][4];
};
// The right operand for 16 columns: fragments of 8 at pair[0] and pair[2].
struct MmaRight {
  uint32_t pair[4];
};

// sums += left right, for 16 columns from 8 n on.
template <class T, int kM, class Block, class Left, class Right, class Sums>
CASTOR_HD void AddPair(Block& block, Left& left, Right& right, int n,
                       Sums& sums) {
  CASTOR_UNROLL
  for (int m = 0; m < kM; ++m) {
    CASTOR_UNROLL
    for (int i = 0; i < 2; ++i) {
      block.template Mma<T>([&](int t) {
        return MmaOperands{sums[t].at[m][n + i], left[t].at[m],
                           right[t].pair + 2 * i};
      });
    }
  }
}

// sums = a b^T: a's rows by b's rows. `sums`: PerThread<MmaSums<kM, kCount /
// 8>>.
template <int kM, class T, int kRows, int kCount, int kD, class Block,
          class Sums>
CASTOR_HD void RowProducts(Block& block, const MatrixRows<T, kRows, kD>& a,
                           const MatrixRows<T, kCount, kD>& b, Sums& sums) {
  static_assert(kRows == kMmaWarps * kM * kMmaRows);
  typename Block::template PerThread<MmaLeft<kM>> left;
  typename Block::template PerThread<MmaRight> right;
  block.EachUnsynced([&](int t) { sums[t].Clear(); });
  CASTOR_UNROLL
  for (int k = 0; k < kD / kMmaDepth; ++k) {
    CASTOR_UNROLL
    for (int m = 0; m < kM; ++m) {
      block.template LoadMatrices<false>([&](int t) {
        const int row = t / kWarp * kM * kMmaRows + m * kMmaRows + t % 16;
        return MatrixLoad{a.Vector(row, 2 * k + t % kWarp / 16), left[t].at[m]};
      });
    }
    CASTOR_UNROLL
    for (int n = 0; n < kCount / kMmaColumns; n += 2) {
      block.template LoadMatrices<false>([&](int t) {
        const int row = n * kMmaColumns + t % 8 + t % kWarp / 16 * 8;
        return MatrixLoad{b.Vector(row, 2 * k + t % 16 / 8), right[t].pair};
      });
      AddPair<T, kM>(block, left, right, n, sums);
    }
  }
}

// sums += p b, p rounded to T, of b's columns [column, column + 8 kN): a
// multiple of 8. `p`: PerThread<MmaSums<kM, kCount / 8>>, `sums`:
// PerThread<MmaSums<kM, kN>>.
template <int kM, int kN, class T, int kCount, int kD, class Block, class P,
          class Sums>
CASTOR_HD void AddProduct(Block& block, P& p,
                          const MatrixRows<T, kCount, kD>& b, int column,
                          Sums& sums) {
  typename Block::template PerThread<MmaLeft<kM>> left;
  typename Block::template PerThread<MmaRight> right;
  CASTOR_UNROLL
  for (int k = 0; k < kCount / kMmaDepth; ++k) {
    block.EachUnsynced([&](int t) {
      CASTOR_UNROLL
      for (int m = 0; m < kM; ++m) {
        CASTOR_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float* const pair = p[t].at[m][2 * k + i / 2] + i % 2 * 2;
          left[t].at[m][i] = Pack<T>(pair[0], pair[1]);
        }
      }
    });
    CASTOR_UNROLL
    for (int n = 0; n < kN; n += 2) {
      block.template LoadMatrices<true>([&](int t) {
        const int vector = column / kVectorElements + n + t % kWarp / 16;
        return MatrixLoad{b.Vector(k * kMmaDepth + t % 16, vector),
                          right[t].pair};
      });
      AddPair<T, kM>(block, left, right, n, sums);
    }
  }
}

// `to` = the scores, rounded to T.
template <int kM, int kN, class T, int kRows>
CASTOR_HD void PutScores(int t, const MmaSums<kM, kN>& scores,
                         MatrixRows<T, kRows, kN * kMmaColumns>& to) {
  CASTOR_UNROLL
  for (int m = 0; m < kM; ++m) {
    CASTOR_UNROLL
    for (int n = 0; n < kN; ++n) {
      CASTOR_UNROLL
      for (int i = 0; i < 4; i += 2) {
        StorePair(scores.at[m][n][i], scores.at[m][n][i + 1],
                  to.Vector(MmaRow<kM>(t, m, i), n) + MmaColumn(t, 0, 0));
      }
    }
  }
}

// sums += a^T b: each warp for all of a's columns, and its share of b's from
// `column` on, 8 kN of them. `sums`: PerThread<MmaSums<kColumns / 16, kN>>.
template <int kN, class T, int kCount, int kColumns, int kD, class Block,
          class Sums>
CASTOR_HD void AddColumnProducts(Block& block,
                                 const MatrixRows<T, kCount, kColumns>& a,
                                 const MatrixRows<T, kCount, kD>& b, int column,
                                 Sums& sums) {
  constexpr int kM = kColumns / kMmaRows;
  typename Block::template PerThread<MmaLeft<kM>> left;
  typename Block::template PerThread<MmaRight> right;
  CASTOR_UNROLL
  for (int k = 0; k < kCount / kMmaDepth; ++k) {
    CASTOR_UNROLL
    for (int m = 0; m < kM; ++m) {
      block.template LoadMatrices<true>([&](int t) {
        const int row = k * kMmaDepth + t % 8 + t % kWarp / 16 * 8;
        return MatrixLoad{a.Vector(row, 2 * m + t % 16 / 8), left[t].at[m]};
      });
    }
    CASTOR_UNROLL
    for (int n = 0; n < kN; n += 2) {
      block.template LoadMatrices<true>([&](int t) {
        const int vector =
            column / kVectorElements + t / kWarp * kN + n + t % kWarp / 16;
        return MatrixLoad{b.Vector(k * kMmaDepth + t % 16, vector),
                          right[t].pair};
      });
      AddPair<T, kM>(block, left, right, n, sums);
    }
  }
}

// Writes thread t's part of columns [column, column + 8 kN) of rows [begin,
// begin + ...) of `to`, each times factor(m, h) for the row with i / 2 = h.
template <int kM, class T, int kN, class Factor>
CASTOR_HD void WriteRows(int t, const AttentionOperands<T>& of,
                         const MmaSums<kM, kN>& sums, int64_t begin, int column,
                         const RowsOfHead<T>& to, const Factor& factor) {
  CASTOR_UNROLL
  for (int m = 0; m < kM; ++m) {
    CASTOR_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int64_t row = begin + MmaRow<kM>(t, m, 2 * h);
      if (row >= to.count) continue;
      const float by = factor(m, h);
      CASTOR_UNROLL
      for (int n = 0; n < kN; ++n) {
        const int d = column + MmaColumn(t, n, 0);
        const float low = Mul(sums.at[m][n][2 * h], by);
        const float high = Mul(sums.at[m][n][2 * h + 1], by);
        if (of.whole_vectors) {
          if (d < of.head_size) StorePair(low, high, to.at(row) + d);
        } else {
          if (d < of.head_size) Store(low, to.at(row) + d);
          if (d + 1 < of.head_size) Store(high, to.at(row) + d + 1);
        }
      }
    }
  }
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_MMA_TILE_H_
