// The common parts of attention's passes in fp32: tiles of 64 rows by 64.
//
// A head of D channels is worked on in *slices* of 64: only one slice of two
// operands lies in shared memory at a time, so that a block's shared memory
// does not grow with D and every GPU has enough (kMostSharedBytes). A score is
// summed over the channels in their order, slice after slice, and an output's
// element over the rows in theirs: the same order as with whole rows in shared
// memory. Slices are read again for each product, from the GPU's L2 cache: 16
// loads of a thread for each 1,024 of its multiplications.
//
// A block of 256 threads is a square of 16 x 16: thread (y, x) has rows y + 16
// i and columns x + 16 j of each tile. Tiles lie in shared memory, their rows
// an odd number of words apart, so that a column is in 16 banks.
#ifndef CASTOR_KERNELS_ATTENTION_TILE_H_
#define CASTOR_KERNELS_ATTENTION_TILE_H_

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

inline constexpr int kAttentionTile = 64;
inline constexpr int kAttentionSlice = 64;  // channels
inline constexpr int kAttentionThreads = 256;
inline constexpr int kSide = 16;                       // threads of a row
inline constexpr int kMicro = kAttentionTile / kSide;  // rows of a thread

using AttentionRows = float[kAttentionTile][kAttentionSlice + 1];
using AttentionScores = float[kAttentionTile][kAttentionTile + 1];

// tile = a slice of rows [begin, begin + 64) of `from`; zero after the last one
// and after the head's size. Called by each thread.
CASTOR_HD void LoadRows(int t, int64_t head_size,
                        const RowsOfHead<const float>& from, int64_t begin,
                        int slice, AttentionRows& tile) {
  for (int e = t; e < kAttentionTile * kAttentionSlice;
       e += kAttentionThreads) {
    const int r = e / kAttentionSlice;
    const int d = e % kAttentionSlice;
    const int channel = slice * kAttentionSlice + d;
    const bool inside = begin + r < from.count && channel < head_size;
    tile[r][d] = inside ? from.at(begin + r)[channel] : 0.0f;
  }
}

// A thread's part of a tile [64, 64].
struct AttentionScorePart {
  float at[kMicro][kMicro];

  CASTOR_HD void Clear() {
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      CASTOR_UNROLL
      for (int j = 0; j < kMicro; ++j) at[i][j] = 0.0f;
    }
  }
};

// at[i][j] += sum over a slice's d of a[y + 16 i][d] b[x + 16 j][d].
CASTOR_HD void AddRowProducts(int t, int64_t head_size, int slice,
                              const AttentionRows& a, const AttentionRows& b,
                              AttentionScorePart& part) {
  float(&sums)[kMicro][kMicro] = part.at;
  const int y = t / kSide;
  const int x = t % kSide;
  const int depth = static_cast<int>(
      Min<int64_t>(kAttentionSlice, head_size - slice * kAttentionSlice));
  for (int d = 0; d < depth; ++d) {
    float u[kMicro], w[kMicro];
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) u[i] = a[y + kSide * i][d];
    CASTOR_UNROLL
    for (int j = 0; j < kMicro; ++j) w[j] = b[x + kSide * j][d];
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      CASTOR_UNROLL
      for (int j = 0; j < kMicro; ++j) sums[i][j] = Fma(u[i], w[j], sums[i][j]);
    }
  }
}

// A thread's part of a tile [64, D].
template <int kD>
struct AttentionPart {
  static constexpr int kColumns = kD / kSide;
  float at[kMicro][kColumns];

  CASTOR_HD void Clear() {
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      CASTOR_UNROLL
      for (int j = 0; j < kColumns; ++j) at[i][j] = 0.0f;
    }
  }

  // Columns of a slice += s b, or s^T b: s [64, 64], b [64, 64] the slice. A
  // sum's terms are added in the order of b's rows, or from the last to the
  // first.
  template <bool kTranspose>
  CASTOR_HD void AddProduct(int t, const AttentionScores& s,
                            const AttentionRows& b, int slice) {
    constexpr int kSliceColumns = kAttentionSlice / kSide;
    const int y = t / kSide;
    const int x = t % kSide;
    for (int step = 0; step < kAttentionTile; ++step) {
      const int k = kTranspose ? kAttentionTile - 1 - step : step;
      float u[kMicro], w[kSliceColumns];
      CASTOR_UNROLL
      for (int i = 0; i < kMicro; ++i) {
        u[i] = kTranspose ? s[k][y + kSide * i] : s[y + kSide * i][k];
      }
      CASTOR_UNROLL
      for (int j = 0; j < kSliceColumns; ++j) w[j] = b[k][x + kSide * j];
      CASTOR_UNROLL
      for (int i = 0; i < kMicro; ++i) {
        CASTOR_UNROLL
        for (int j = 0; j < kSliceColumns; ++j) {
          float& sum = at[i][slice * kSliceColumns + j];
          sum = Fma(u[i], w[j], sum);
        }
      }
    }
  }

  // Writes this thread's part of rows [begin, begin + 64) of `to`, the channels
  // of a head from `channel` on.
  CASTOR_HD void Write(int t, int64_t begin, int channel, int64_t head_size,
                       const RowsOfHead<float>& to) const {
    ForEach(t, begin, channel, head_size, to,
            [&](int i, int j, float* element) { *element = at[i][j]; });
  }
  // Reads that part; zero after the last row and after the head's size.
  CASTOR_HD void Read(int t, int64_t begin, int channel, int64_t head_size,
                      const RowsOfHead<float>& from) {
    Clear();
    ForEach(t, begin, channel, head_size, from,
            [&](int i, int j, float* element) { at[i][j] = *element; });
  }

 private:
  template <class F>
  CASTOR_HD static void ForEach(int t, int64_t begin, int channel,
                                int64_t head_size,
                                const RowsOfHead<float>& rows, const F& f) {
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      const int64_t row = begin + t / kSide + kSide * i;
      if (row >= rows.count) continue;
      CASTOR_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const int d = channel + t % kSide + kSide * j;
        if (d < head_size) f(i, j, rows.at(row) + d);
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_TILE_H_
