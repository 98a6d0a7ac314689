// Attention's forward pass on the matrix units, for 16-bit types. Source: Dao,
// "FlashAttention-2", 2023, algorithm 1: a warp has whole rows of the scores.
#ifndef CASTOR_KERNELS_ATTENTION_MMA_FORWARD_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_MMA_FORWARD_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/mma_tile.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// One block per head and tile of queries, the longest rows first.
template <class T, int kD, bool kDrops>
struct AttentionMmaForwardProgram {
  static constexpr int kThreads = kMmaThreads;
  // A key's fragment serves 32 queries, if a thread's registers can hold their
  // sums.
  static constexpr int kM = kD == 256 ? 1 : 2;
  static constexpr int kRows = kMmaWarps * kM * kMmaRows;
  static_assert(kRows <= kThreads);
  static constexpr int kKeys = kD == 64 ? 64 : 32;
  static constexpr int kN = kKeys / kMmaColumns;
  using Kept = KeptScores<kRows, kKeys, 2, kDrops>;
  struct Shared : Kept {
    MatrixRows<T, kRows, kD> q;
    MatrixRows<T, kKeys, kD> k[2], v[2];
    SeenKeys<int> seen[kRows];
  };

  AttentionOperands<T> of;
  int64_t batch_heads;
  T* out;      // [B, T, C]
  float* lse;  // [B, H, T]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t head = block.index() % batch_heads;
    const int begin = static_cast<int>(of.Tiles(of.band.queries, kRows) - 1 -
                                       block.index() / batch_heads) *
                      kRows;
    const auto keys = of.KeysOf(head, begin, kRows);
    const RowsOfHead<const T> k = of.InK(of.k, of.KvHead(head));
    const RowsOfHead<const T> v = of.InK(of.v, of.KvHead(head));
    const auto load = [&](int t, int64_t key, int stage) {
      LoadAhead(block, t, of, k, key, shared.k[stage]);
      LoadAhead(block, t, of, v, key, shared.v[stage]);
      shared.FillKept(t, of, stage, head, begin, key);
    };
    typename Block::template PerThread<MmaSums<kM, kN>> scores;
    typename Block::template PerThread<MmaSums<kM, kD / kMmaColumns>> sums;
    typename Block::template PerThread<RowStates> rows;
    block.EachUnsynced([&](int t) {
      LoadAhead(block, t, of, of.InQ(of.q, head), begin, shared.q);
      if (t < kRows) shared.seen[t] = SeenBy(of.BandOf(head), begin + t);
      load(t, keys.begin, 0);
      sums[t].Clear();
      rows[t].Clear();
    });
    int stage = 0;
    const int last = static_cast<int>(keys.end);
    for (int key = static_cast<int>(keys.begin); key < last;
         key += kKeys, stage ^= 1) {
      block.WaitForCopies();
      if (key + kKeys < last) {
        block.EachUnsynced([&](int t) { load(t, key + kKeys, stage ^ 1); });
        block.Rejoin();
      }
      RowProducts<kM>(block, shared.q, shared.k[stage], scores);
      // Only tiles at the band's edges and at the end have masked scores.
      const TileMask<false, SeenKeys<int>> mask = {shared.seen, key};
      const bool partial = !mask.IsAll(kRows, kKeys);
      block.EachUnsynced([&](int t) {
        if (of.softcap > 0.0f) Cap(scores[t]);
        if (partial) Mask(t, mask, MinusInfinity(), scores[t]);
        rows[t].Maxima(scores[t]);
      });
      CASTOR_UNROLL
      for (int r = 0; r < 2 * kM; ++r) {
        block.QuadMax([&](int t) -> float& { return rows[t].tile[r]; });
      }
      block.EachUnsynced([&](int t) {
        Rescale(rows[t], sums[t]);
        Probabilities(t, shared, stage, rows[t], scores[t]);
      });
      block.Rejoin();
      AddProduct<kM, kD / kMmaColumns>(block, scores, shared.v[stage], 0, sums);
    }
    CASTOR_UNROLL
    for (int r = 0; r < 2 * kM; ++r) {
      block.QuadSum([&](int t) -> float& { return rows[t].sum[r]; });
    }
    block.EachUnsynced([&](int t) {
      WriteRows<kM>(
          t, of, sums[t], begin, 0, of.InOut(out, head), [&](int m, int h) {
            return Div(kDrops ? of.kept : 1.0f, rows[t].sum[2 * m + h]);
          });
      if (t % 4 != 0) return;
      CASTOR_UNROLL
      for (int r = 0; r < 2 * kM; ++r) {
        const int64_t row = begin + MmaRow<kM>(t, r / 2, r % 2 * 2);
        if (row >= of.band.queries) continue;
        lse[of.InRows(head, row)] =
            Fma(rows[t].max[r], Exponent(), logf(rows[t].sum[r]));
      }
    });
  }

 private:
  // A thread's state of its rows; row 2 m + h is at[m]'s row with i / 2 = h.
  // Four lanes share a row: all have its maximum, or one that later scores
  // exceed by at most kGrowth, and each has the sum of its own columns.
  struct RowStates {
    float max[2 * kM], sum[2 * kM];
    float tile[2 * kM];  // the maximum of the present tile

    CASTOR_HD void Clear() {
      CASTOR_UNROLL
      for (int r = 0; r < 2 * kM; ++r) {
        max[r] = MinusInfinity();
        sum[r] = 0.0f;
      }
    }

    CASTOR_HD void Maxima(const MmaSums<kM, kN>& scores) {
      CASTOR_UNROLL
      for (int r = 0; r < 2 * kM; ++r) {
        tile[r] = MinusInfinity();
        CASTOR_UNROLL
        for (int n = 0; n < kN; ++n) {
          const float* const s = scores.at[r / 2][n] + r % 2 * 2;
          tile[r] = fmaxf(tile[r], fmaxf(s[0], s[1]));
        }
      }
    }
  };

  // Returns the factor of exp's argument: the scores' registers hold q k^T, or
  // the capped score.
  CASTOR_HD float Exponent() const {
    return of.softcap > 0.0f ? 1.0f : of.scale;
  }
  CASTOR_HD void Cap(MmaSums<kM, kN>& scores) const {
    CASTOR_UNROLL
    for (int m = 0; m < kM; ++m) {
      CASTOR_UNROLL
      for (int n = 0; n < kN; ++n) {
        CASTOR_UNROLL
        for (float& s : scores.at[m][n]) s = of.Score(s).s;
      }
    }
  }

  // Probabilities may be up to 2^kGrowth before sums are rescaled: every type
  // has room for that, and few tiles after the first one exceed it.
  static constexpr float kGrowth = 8.0f;

  // Rescales the sums so far to the rows' new maxima, if these have grown much.
  // The lanes of a warp may differ in that.
  CASTOR_HD void Rescale(RowStates& rows,
                         MmaSums<kM, kD / kMmaColumns>& sums) const {
    const float scale = Mul(Exponent(), kLog2E);
    bool grown = false;
    CASTOR_UNROLL
    for (int r = 0; r < 2 * kM; ++r) {
      // If both are -inf the difference is a NaN, which is not greater.
      grown |= Mul(Sub(rows.tile[r], rows.max[r]), scale) > kGrowth;
    }
    if (!grown) return;
    CASTOR_UNROLL
    for (int r = 0; r < 2 * kM; ++r) {
      const float max = fmaxf(rows.max[r], rows.tile[r]);
      const float by = Exp2(Mul(Sub(rows.max[r], RowShift(max)), scale));
      rows.max[r] = max;
      rows.sum[r] = Mul(rows.sum[r], by);
      CASTOR_UNROLL
      for (int n = 0; n < kD / kMmaColumns; ++n) {
        float* const sum = sums.at[r / 2][n] + r % 2 * 2;
        sum[0] = Mul(sum[0], by);
        sum[1] = Mul(sum[1], by);
      }
    }
  }

  // p = exp((s - max) scale), summed before dropout. The output is scaled by
  // dropout's factor in the end.
  CASTOR_HD void Probabilities(int t, const Kept& kept, int stage,
                               RowStates& rows, MmaSums<kM, kN>& scores) const {
    const float scale = Mul(Exponent(), kLog2E);
    CASTOR_UNROLL
    for (int r = 0; r < 2 * kM; ++r) {
      const float max = -Mul(RowShift(rows.max[r]), scale);
      const int row = MmaRow<kM>(t, r / 2, r % 2 * 2);
      uint32_t bits = 0;
      CASTOR_UNROLL
      for (int n = 0; n < kN; ++n) {
        if constexpr (kDrops) {
          if (n % kMmaPerWord == 0)
            bits = kept.KeptFrom(stage, row, MmaColumn(t, n, 0));
        }
        CASTOR_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& s = scores.at[r / 2][n][r % 2 * 2 + i];
          s = Exp2(Fma(s, scale, max));
          rows.sum[r] = Add(rows.sum[r], s);
          if constexpr (kDrops) {
            const int bit = n % kMmaPerWord * kMmaColumns + i;
            s = (bits >> bit & 1u) != 0 ? s : 0.0f;
          }
        }
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_MMA_FORWARD_PROGRAM_H_
