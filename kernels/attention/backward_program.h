// Attention's backward pass in fp32, from the rows' log-sum-exp. Source: Dao,
// "FlashAttention-2", 2023, algorithm 2, but that it runs twice over the
// scores, once by keys (dk, dv) and once by queries (dq): nothing is added by
// atomics, so that sums have one order, for 7 products instead of 5.
#ifndef CASTOR_KERNELS_ATTENTION_BACKWARD_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_BACKWARD_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/tile.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// dk and dv where kKeys: a block per tile of keys, over all queries that see
// it. Otherwise dq: a block per tile of queries, over the keys that it sees.
template <int kD, bool kKeys>
struct AttentionBackwardProgram {
  static constexpr int kThreads = kAttentionThreads;
  static constexpr int kRows = kAttentionTile;
  struct Shared {
    AttentionRows<kD> q, dout, k, v;
    AttentionScores s;
    float lse[kAttentionTile], delta[kAttentionTile];
  };
  struct ScorePart {
    float at[kMicro][kMicro];
  };

  AttentionOperands<float> of;
  int64_t batch_heads;
  const float* dout;   // [B, T, C]
  const float* lse;    // [B, H, T]
  const float* delta;  // [B, H, T]
  float* dqkv;         // [B, T, 3C]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t bh = block.index() % batch_heads;
    const int64_t tile = block.index() / batch_heads;
    if constexpr (kKeys) {
      Keys(block, shared, bh, tile * kAttentionTile);
    } else {
      Queries(block, shared, bh, (of.tiles(kRows) - 1 - tile) * kAttentionTile);
    }
  }

 private:
  template <class Block>
  CASTOR_HD void Keys(Block& block, Shared& shared, int64_t bh,
                      int64_t key) const {
    typename Block::template PerThread<AttentionPart<kD>> dk, dv;
    typename Block::template PerThread<ScorePart> ds;
    block.Each([&](int t) {
      LoadKeys(t, bh, key, shared);
      dk[t].Clear();
      dv[t].Clear();
    });
    // Earlier queries see none of the tile's keys.
    for (int64_t query = of.causal ? key : 0; query < of.positions;
         query += kAttentionTile) {
      block.Each([&](int t) { LoadQueries(t, bh, query, shared); });
      block.Each([&](int t) {
        Gradients(t, bh, query, key, shared, &shared.s, ds[t]);
      });
      block.Each([&](int t) {
        dv[t].template AddProduct<true>(t, shared.s, shared.dout);
      });
      block.Each([&](int t) { Put(t, ds[t], shared.s); });
      block.Each([&](int t) {
        dk[t].template AddProduct<true>(t, shared.s, shared.q);
      });
    }
    block.Each([&](int t) {
      dk[t].Write(t, key, of, of.InQkv(dqkv, bh, 1));
      dv[t].Write(t, key, of, of.InQkv(dqkv, bh, 2));
    });
  }

  template <class Block>
  CASTOR_HD void Queries(Block& block, Shared& shared, int64_t bh,
                         int64_t query) const {
    typename Block::template PerThread<AttentionPart<kD>> dq;
    block.Each([&](int t) {
      LoadQueries(t, bh, query, shared);
      dq[t].Clear();
    });
    const int64_t end = Min<int64_t>(
        of.positions, of.causal ? query + kAttentionTile : of.positions);
    for (int64_t key = 0; key < end; key += kAttentionTile) {
      block.Each([&](int t) { LoadKeys(t, bh, key, shared); });
      block.Each([&](int t) {
        ScorePart ds;
        Gradients(t, bh, query, key, shared, nullptr, ds);
        Put(t, ds, shared.s);
      });
      block.Each([&](int t) {
        dq[t].template AddProduct<false>(t, shared.s, shared.k);
      });
    }
    block.Each(
        [&](int t) { dq[t].Write(t, query, of, of.InQkv(dqkv, bh, 0)); });
  }

  CASTOR_HD void LoadKeys(int t, int64_t bh, int64_t key,
                          Shared& shared) const {
    LoadRows<kD>(t, of, of.InQkv(of.qkv, bh, 1), key, shared.k);
    LoadRows<kD>(t, of, of.InQkv(of.qkv, bh, 2), key, shared.v);
  }

  CASTOR_HD void LoadQueries(int t, int64_t bh, int64_t query,
                             Shared& shared) const {
    LoadRows<kD>(t, of, of.InQkv(of.qkv, bh, 0), query, shared.q);
    LoadRows<kD>(t, of, of.InOut(dout, bh), query, shared.dout);
    if (t >= kAttentionTile) return;
    // Rows behind the end have p = exp(0 - inf) = 0.
    const bool inside = query + t < of.positions;
    const int64_t at = of.InRows(bh, query + t);
    shared.lse[t] = inside ? lse[at] : -MinusInfinity();
    shared.delta[t] = inside ? delta[at] : 0.0f;
  }

  // p = exp(s - lse) and ds = p (dp f - delta) scale for this thread's part of
  // the tile, f the dropout's factors; p f goes to `dropped` if not null.
  CASTOR_HD void Gradients(int t, int64_t bh, int64_t query, int64_t key,
                           const Shared& shared, AttentionScores* dropped,
                           ScorePart& ds) const {
    float s[kMicro][kMicro] = {};
    float dp[kMicro][kMicro] = {};
    const int depth = static_cast<int>(of.head_size);
    WordReader words(of.key);
    RowProducts<kD>(t, depth, shared.q, shared.k, s);
    RowProducts<kD>(t, depth, shared.dout, shared.v, dp);
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      CASTOR_UNROLL
      for (int j = 0; j < kMicro; ++j) {
        const int r = t / kSide + kSide * i;
        const int c = t % kSide + kSide * j;
        float p = 0.0f;
        float pf = 0.0f;
        ds.at[i][j] = 0.0f;
        if (of.Sees(query + r, key + c)) {
          const float f =
              of.drops ? of.Factor(words, of.Element(bh, query + r, key + c))
                       : 1.0f;
          p = expf(Sub(Mul(s[i][j], of.scale), shared.lse[r]));
          pf = Mul(p, f);
          ds.at[i][j] =
              Mul(Mul(p, Sub(Mul(dp[i][j], f), shared.delta[r])), of.scale);
        }
        if (dropped != nullptr) (*dropped)[r][c] = pf;
      }
    }
  }

  CASTOR_HD static void Put(int t, const ScorePart& ds, AttentionScores& s) {
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      CASTOR_UNROLL
      for (int j = 0; j < kMicro; ++j) {
        s[t / kSide + kSide * i][t % kSide + kSide * j] = ds.at[i][j];
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_BACKWARD_PROGRAM_H_
