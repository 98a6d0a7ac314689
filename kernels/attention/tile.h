// What the passes of attention in fp32 share: tiles of 64 x 64 or 64 x D.
//
// A block of 256 threads is a square of 16 x 16: thread (y, x) has rows y + 16
// i and columns x + 16 j of each tile. Tiles lie in shared memory, their rows
// an odd number of words apart, so that a column meets 16 banks.
#ifndef CASTOR_KERNELS_ATTENTION_TILE_H_
#define CASTOR_KERNELS_ATTENTION_TILE_H_

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

inline constexpr int kAttentionTile = 64;
inline constexpr int kAttentionThreads = 256;
inline constexpr int kSide = 16;                       // threads of a row
inline constexpr int kMicro = kAttentionTile / kSide;  // rows of a thread

template <int kD>
using AttentionRows = float[kAttentionTile][kD + 1];
using AttentionScores = float[kAttentionTile][kAttentionTile + 1];

// tile = rows [begin, begin + 64) of `from`; zero behind the last one and
// behind the head's size. Called by each thread.
template <int kD>
CASTOR_HD void LoadRows(int t, int64_t head_size,
                        const RowsOfHead<const float>& from, int64_t begin,
                        AttentionRows<kD>& tile) {
  for (int e = t; e < kAttentionTile * kD; e += kAttentionThreads) {
    const int r = e / kD;
    const int d = e % kD;
    const bool inside = begin + r < from.count && d < head_size;
    tile[r][d] = inside ? from.at(begin + r)[d] : 0.0f;
  }
}

// sums[i][j] += sum over d of a[y + 16 i][d] b[x + 16 j][d].
template <int kD>
CASTOR_HD void RowProducts(int t, int depth, const AttentionRows<kD>& a,
                           const AttentionRows<kD>& b,
                           float (&sums)[kMicro][kMicro]) {
  const int y = t / kSide;
  const int x = t % kSide;
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

  // += s b, or s^T b: s [64, 64], b [64, D].
  template <bool kTranspose>
  CASTOR_HD void AddProduct(int t, const AttentionScores& s,
                            const AttentionRows<kD>& b) {
    const int y = t / kSide;
    const int x = t % kSide;
    for (int k = 0; k < kAttentionTile; ++k) {
      float u[kMicro], w[kColumns];
      CASTOR_UNROLL
      for (int i = 0; i < kMicro; ++i) {
        u[i] = kTranspose ? s[k][y + kSide * i] : s[y + kSide * i][k];
      }
      CASTOR_UNROLL
      for (int j = 0; j < kColumns; ++j) w[j] = b[k][x + kSide * j];
      CASTOR_UNROLL
      for (int i = 0; i < kMicro; ++i) {
        CASTOR_UNROLL
        for (int j = 0; j < kColumns; ++j) {
          at[i][j] = Fma(u[i], w[j], at[i][j]);
        }
      }
    }
  }

  // Rows [begin, begin + 64) of `to` = what this thread has of them.
  CASTOR_HD void Write(int t, int64_t begin, int64_t head_size,
                       const RowsOfHead<float>& to) const {
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      const int64_t row = begin + t / kSide + kSide * i;
      if (row >= to.count) continue;
      CASTOR_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const int d = t % kSide + kSide * j;
        if (d < head_size) to.at(row)[d] = at[i][j];
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_TILE_H_
