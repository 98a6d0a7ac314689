// Attention's forward pass in fp32, with a running maximum and sum of each row.
// Source: Dao et al., "FlashAttention", 2022, algorithm 1.
#ifndef CASTOR_KERNELS_ATTENTION_FORWARD_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_FORWARD_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/tile.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// One block per head and tile of queries, the longest rows first.
template <int kD>
struct AttentionForwardProgram {
  static constexpr int kThreads = kAttentionThreads;
  static constexpr int kRows = kAttentionTile;
  static constexpr int kParts = kThreads / kAttentionTile;  // of a row
  static constexpr int kPart = kAttentionTile / kParts;
  static constexpr int kSlices = kD / kAttentionSlice;
  struct Shared {
    AttentionRows q, kv;  // slices
    AttentionScores s;
    float part[kAttentionTile][kParts];
    float max[kAttentionTile], sum[kAttentionTile], rescale[kAttentionTile];
    SeenKeys<int> seen[kAttentionTile];
  };

  AttentionOperands<float> of;
  int64_t batch_heads;
  float* out;  // [B, T, C]
  float* lse;  // [B, H, T]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t bh = block.index() % batch_heads;
    const int64_t begin =
        (of.Tiles(of.band.queries, kRows) - 1 - block.index() / batch_heads) *
        kAttentionTile;
    const auto keys = of.KeysOf(bh, begin, kAttentionTile);
    const RowsOfHead<const float> k = of.InK(of.k, of.KvHead(bh));
    const RowsOfHead<const float> v = of.InK(of.v, of.KvHead(bh));
    const RowsOfHead<const float> q = of.InQ(of.q, bh);
    typename Block::template PerThread<AttentionPart<kD>> sums;
    typename Block::template PerThread<AttentionScorePart> scores;
    block.EachUnsynced([&](int t) {
      sums[t].Clear();
      if (t >= kAttentionTile) return;
      shared.max[t] = MinusInfinity();
      shared.sum[t] = 0.0f;
      shared.seen[t] = SeenBy(of.BandOf(bh), begin + t);
    });
    for (int64_t key = keys.begin; key < keys.end; key += kAttentionTile) {
      CASTOR_UNROLL
      for (int slice = 0; slice < kSlices; ++slice) {
        block.Each([&](int t) {
          LoadRows(t, of.head_size, q, begin, slice, shared.q);
          LoadRows(t, of.head_size, k, key, slice, shared.kv);
          if (slice == 0) scores[t].Clear();
        });
        block.Each([&](int t) {
          AddRowProducts(t, of.head_size, slice, shared.q, shared.kv,
                         scores[t]);
          if (slice == kSlices - 1) Scores(t, key, scores[t], shared);
        });
      }
      block.Each([&](int t) {
        LoadRows(t, of.head_size, v, key, 0, shared.kv);
        const float* s = shared.s[t / kParts] + t % kParts * kPart;
        float max = s[0];
        for (int c = 1; c < kPart; ++c) max = fmaxf(max, s[c]);
        shared.part[t / kParts][t % kParts] = max;
      });
      block.Each([&](int t) {
        if (t >= kAttentionTile) return;
        float max = shared.max[t];
        for (int k = 0; k < kParts; ++k) max = fmaxf(max, shared.part[t][k]);
        shared.rescale[t] = expf(Sub(shared.max[t], RowShift(max)));
        shared.max[t] = max;
      });
      block.Each([&](int t) { Probabilities(t, bh, begin, key, shared); });
      block.Each([&](int t) {
        CASTOR_UNROLL
        for (int i = 0; i < kMicro; ++i) {
          const float by = shared.rescale[t / kSide + kSide * i];
          CASTOR_UNROLL
          for (float& v : sums[t].at[i]) v = Mul(v, by);
        }
        sums[t].template AddProduct<false>(t, shared.s, shared.kv, 0);
        if (t >= kAttentionTile) return;
        float sum = 0.0f;
        for (int k = 0; k < kParts; ++k) sum = Add(sum, shared.part[t][k]);
        shared.sum[t] = Fma(shared.sum[t], shared.rescale[t], sum);
      });
      CASTOR_UNROLL
      for (int slice = 1; slice < kSlices; ++slice) {
        block.Each([&](int t) {
          LoadRows(t, of.head_size, v, key, slice, shared.kv);
        });
        block.Each([&](int t) {
          sums[t].template AddProduct<false>(t, shared.s, shared.kv, slice);
        });
      }
    }
    block.EachUnsynced([&](int t) {
      CASTOR_UNROLL
      for (int i = 0; i < kMicro; ++i) {
        const float sum = shared.sum[t / kSide + kSide * i];
        CASTOR_UNROLL
        for (float& v : sums[t].at[i]) v = Div(v, sum);
      }
      sums[t].Write(t, begin, 0, of.head_size, of.InOut(out, bh));
      if (t < kAttentionTile && begin + t < of.band.queries) {
        lse[of.InRows(bh, begin + t)] = Add(shared.max[t], logf(shared.sum[t]));
      }
    });
  }

 private:
  CASTOR_HD void Scores(int t, int64_t key, const AttentionScorePart& scores,
                        Shared& shared) const {
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      CASTOR_UNROLL
      for (int j = 0; j < kMicro; ++j) {
        const int r = t / kSide + kSide * i;
        const int c = t % kSide + kSide * j;
        const bool sees = shared.seen[r].Has(static_cast<int>(key) + c);
        shared.s[r][c] = sees ? of.Score(scores.at[i][j]).s : MinusInfinity();
      }
    }
  }

  // s = exp(s - max), dropped; a part of the row's sum before dropping.
  CASTOR_HD void Probabilities(int t, int64_t bh, int64_t begin, int64_t key,
                               Shared& shared) const {
    const int r = t / kParts;
    const int first = t % kParts * kPart;
    const float shift = RowShift(shared.max[r]);
    WordReader words(of.key);
    float sum = 0.0f;
    for (int c = first; c < first + kPart; ++c) {
      float p = expf(Sub(shared.s[r][c], shift));
      sum = Add(sum, p);
      if (of.drops)
        p = Mul(p, of.Factor(words, of.Element(bh, begin + r, key + c)));
      shared.s[r][c] = p;
    }
    shared.part[r][t % kParts] = sum;
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_FORWARD_PROGRAM_H_
