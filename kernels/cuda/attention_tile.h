// What the passes of attention share: a head's operands, and tiles of 64 x 64
// or 64 x D in fp32.
//
// A block of 256 threads is a square of 16 x 16: thread (y, x) has rows y + 16
// i and columns x + 16 j of each tile. Tiles lie in shared memory, their rows
// an odd number of words apart, so that a column meets 16 banks.
#ifndef CASTOR_KERNELS_CUDA_ATTENTION_TILE_H_
#define CASTOR_KERNELS_CUDA_ATTENTION_TILE_H_

#include <cstdint>

#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

inline constexpr int kAttentionTile = 64;
inline constexpr int kAttentionThreads = 256;
inline constexpr int kSide = 16;                       // threads of a row
inline constexpr int kMicro = kAttentionTile / kSide;  // rows of a thread

// One head's operands; shapes as in kernels/attention.h.
template <class T>
struct AttentionOperands {
  int64_t positions, heads, head_size;  // T, H, D
  bool causal;
  float scale;  // of the scores
  bool drops;
  uint32_t threshold;
  float kept;  // what kept elements are multiplied by
  RandomKey key;
  const T* qkv;

  CASTOR_HD int64_t channels() const { return heads * head_size; }
  CASTOR_HD int64_t tiles() const {
    return (positions + kAttentionTile - 1) / kAttentionTile;
  }
  // Elements before row `position` of part 0 (q), 1 (k), 2 (v) of [B, T, 3C],
  // for head `bh` = b H + h; of [B, T, C]; of [B, H, T].
  CASTOR_HD int64_t InQkv(int64_t bh, int part, int64_t position) const {
    return ((bh / heads) * positions + position) * 3 * channels() +
           part * channels() + bh % heads * head_size;
  }
  CASTOR_HD int64_t InOut(int64_t bh, int64_t position) const {
    return ((bh / heads) * positions + position) * channels() +
           bh % heads * head_size;
  }
  CASTOR_HD int64_t InRows(int64_t bh, int64_t position) const {
    return bh * positions + position;
  }
  CASTOR_HD bool Sees(int64_t i, int64_t j) const {
    return j < positions && (!causal || j <= i);
  }
  CASTOR_HD uint64_t Element(int64_t bh, int64_t i, int64_t j) const {
    return static_cast<uint64_t>(InRows(bh, i)) *
               static_cast<uint64_t>(positions) +
           static_cast<uint64_t>(j);
  }
  CASTOR_HD float Factor(int64_t bh, int64_t i, int64_t j) const {
    if (!drops) return 1.0f;
    return WordReader(key).At(Element(bh, i, j)) >= threshold ? kept : 0.0f;
  }
};

template <int kD>
using AttentionRows = float[kAttentionTile][kD + 1];
using AttentionScores = float[kAttentionTile][kAttentionTile + 1];

// tile = rows [begin, begin + 64) of a matrix whose row r starts at at(r); zero
// behind its end and behind the head's size. Called by each thread.
template <int kD, class T, class At>
CASTOR_HD void LoadRows(int t, int64_t begin, int64_t positions,
                        int64_t head_size, const T* from, const At& at,
                        AttentionRows<kD>& tile) {
  for (int e = t; e < kAttentionTile * kD; e += kAttentionThreads) {
    const int r = e / kD;
    const int d = e % kD;
    const bool inside = begin + r < positions && d < head_size;
    tile[r][d] = inside ? Load(from + at(begin + r) + d) : 0.0f;
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

  // to[at(row) + d] = what this thread has of rows [begin, begin + 64).
  template <class T, class At>
  CASTOR_HD void Write(int t, int64_t begin, int64_t positions,
                       int64_t head_size, T* to, const At& place) const {
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      const int64_t row = begin + t / kSide + kSide * i;
      if (row >= positions) continue;
      CASTOR_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const int d = t % kSide + kSide * j;
        if (d < head_size) Store(at[i][j], to + place(row) + d);
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_ATTENTION_TILE_H_
