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

// The scores [rows, columns] of a tile that count: those of keys that their
// query sees. Queries after the last one add nothing to a sum (their q and dout
// are loaded as zeros).
template <bool kRowsAreKeys, class Seen>
struct TileMask {
  const Seen* seen;  // by the tile's queries, from the first one's on
  int key;           // the tile's first, as `seen` counts keys

  CASTOR_HD bool Counts(int row, int column) const {
    return seen[kRowsAreKeys ? column : row].Has(key +
                                                 (kRowsAreKeys ? row : column));
  }
  // Returns true if all scores of a tile [rows, columns] count: its last query
  // sees its first key, and its first query the last one.
  CASTOR_HD bool IsAll(int rows, int columns) const {
    return key >= seen[(kRowsAreKeys ? columns : rows) - 1].begin &&
           key + (kRowsAreKeys ? rows : columns) <= seen[0].end;
  }
};

// Sets masked scores of a tile whose rows are queries to `value`, row by row,
// so that few registers have bounds.
template <int kM, int kN, class Seen>
CASTOR_HD void Mask(int t, const TileMask<false, Seen>& mask, float value,
                    MmaSums<kM, kN>& scores) {
  CASTOR_UNROLL
  for (int r = 0; r < 2 * kM; ++r) {
    const Seen seen = mask.seen[MmaRow<kM>(t, r / 2, r % 2 * 2)];
    const int first = seen.begin - mask.key - MmaColumn(t, 0, 0);
    const uint32_t count = static_cast<uint32_t>(seen.end - seen.begin);
    CASTOR_UNROLL
    for (int n = 0; n < kN; ++n) {
      CASTOR_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int column = n * kMmaColumns + i;
        if (static_cast<uint32_t>(column - first) >= count) {
          scores.at[r / 2][n][r % 2 * 2 + i] = value;
        }
      }
    }
  }
}

// The bits of the scores that dropout keeps in a tile, kQueries by kKeys, in
// each of kStages. Without kDrops there are none, and this, as a base, takes no
// room.
template <int kQueries, int kKeys, int kStages, bool kDrops>
struct KeptScores {
  static constexpr int kBits = 32;
  static constexpr int kWords = kKeys / kBits;
  static_assert(kKeys % kBits == 0);
  uint32_t words[kStages][kQueries][kWords];

  // Called by each thread; the bits may be read after the next barrier.
  template <class T>
  CASTOR_HD void FillKept(int t, const AttentionOperands<T>& of, int stage,
                          int64_t head, int64_t query, int64_t key) {
    for (int w = t; w < kQueries * kWords; w += kMmaThreads) {
      const uint64_t element =
          of.Element(head, query + w / kWords, key + w % kWords * kBits);
      words[stage][w / kWords][w % kWords] =
          KeptBits(of.key, element, of.threshold);
    }
  }
  // Returns the bits of the keys from `key` to the next multiple of 32, from
  // the lowest bit on.
  CASTOR_HD uint32_t KeptFrom(int stage, int query, int key) const {
    return words[stage][query][key / kBits] >> (key % kBits);
  }
};
template <int kQueries, int kKeys, int kStages>
struct KeptScores<kQueries, kKeys, kStages, false> {
  template <class T>
  CASTOR_HD void FillKept(int, const AttentionOperands<T>&, int, int64_t,
                          int64_t, int64_t) {}
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
