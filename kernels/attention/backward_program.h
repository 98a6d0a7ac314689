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
  int64_t batch_heads;  // B H; B K where kKeys
  const float* dout;    // [B, T, C]
  const float* lse;     // [B, H, T]
  const float* delta;   // [B, H, T]
  float *dq, *dk, *dv;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t head = block.index() % batch_heads;
    const int64_t tile = block.index() / batch_heads;
    if constexpr (kKeys) {
      Keys(block, shared, head, tile * kAttentionTile);
    } else {
      Queries(block, shared, head,
              (of.Tiles(of.band.queries, kRows) - 1 - tile) * kAttentionTile);
    }
  }

 private:
  template <class Block>
  CASTOR_HD void Keys(Block& block, Shared& shared, int64_t kv_head,
                      int64_t key) const {
    typename Block::template PerThread<AttentionPart<kD>> dk_part, dv_part;
    typename Block::template PerThread<ScorePart> ds;
    block.Each([&](int t) {
      LoadKeys(t, kv_head, key, shared);
      dk_part[t].Clear();
      dv_part[t].Clear();
    });
    const auto queries = of.QueriesOf(key, kAttentionTile);
    for (int64_t member = 0; member < of.group; ++member) {
      const int64_t bh = of.HeadOf(kv_head, member);
      for (int64_t query = queries.begin; query < queries.end;
           query += kAttentionTile) {
        block.Each([&](int t) { LoadQueries(t, bh, query, shared); });
        block.Each([&](int t) {
          Gradients(t, bh, query, key, shared, &shared.s, ds[t]);
        });
        block.Each([&](int t) {
          dv_part[t].template AddProduct<true>(t, shared.s, shared.dout);
        });
        block.Each([&](int t) { Put(t, ds[t], shared.s); });
        block.Each([&](int t) {
          dk_part[t].template AddProduct<true>(t, shared.s, shared.q);
        });
      }
    }
    block.Each([&](int t) {
      dk_part[t].Write(t, key, of.head_size, of.InK(dk, kv_head));
      dv_part[t].Write(t, key, of.head_size, of.InK(dv, kv_head));
    });
  }

  template <class Block>
  CASTOR_HD void Queries(Block& block, Shared& shared, int64_t bh,
                         int64_t query) const {
    typename Block::template PerThread<AttentionPart<kD>> dq_part;
    block.Each([&](int t) {
      LoadQueries(t, bh, query, shared);
      dq_part[t].Clear();
    });
    const auto keys = of.KeysOf(query, kAttentionTile);
    for (int64_t key = keys.begin; key < keys.end; key += kAttentionTile) {
      block.Each([&](int t) { LoadKeys(t, of.KvHead(bh), key, shared); });
      block.Each([&](int t) {
        ScorePart ds;
        Gradients(t, bh, query, key, shared, nullptr, ds);
        Put(t, ds, shared.s);
      });
      block.Each([&](int t) {
        dq_part[t].template AddProduct<false>(t, shared.s, shared.k);
      });
    }
    block.Each([&](int t) {
      dq_part[t].Write(t, query, of.head_size, of.InQ(dq, bh));
    });
  }

  CASTOR_HD void LoadKeys(int t, int64_t kv_head, int64_t key,
                          Shared& shared) const {
    LoadRows<kD>(t, of.head_size, of.InK(of.k, kv_head), key, shared.k);
    LoadRows<kD>(t, of.head_size, of.InK(of.v, kv_head), key, shared.v);
  }

  CASTOR_HD void LoadQueries(int t, int64_t bh, int64_t query,
                             Shared& shared) const {
    LoadRows<kD>(t, of.head_size, of.InQ(of.q, bh), query, shared.q);
    LoadRows<kD>(t, of.head_size, of.InOut(dout, bh), query, shared.dout);
    if (t >= kAttentionTile) return;
    // Rows behind the end have p = exp(0 - inf) = 0.
    const bool inside = query + t < of.band.queries;
    const int64_t at = of.InRows(bh, query + t);
    shared.lse[t] = inside ? lse[at] : -MinusInfinity();
    shared.delta[t] = inside ? delta[at] : 0.0f;
  }

  // p = exp(s - lse) and ds = p (dp f - delta) scale slope for this thread's
  // part of the tile, f the dropout's factors and slope the soft cap's; p f
  // goes to `dropped` if not null.
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
        if (of.band.Sees(query + r, key + c)) {
          const auto score = of.Score(s[i][j]);
          const float f =
              of.drops ? of.Factor(words, of.Element(bh, query + r, key + c))
                       : 1.0f;
          p = expf(Sub(score.s, shared.lse[r]));
          pf = Mul(p, f);
          ds.at[i][j] =
              Mul(Mul(Mul(p, Sub(Mul(dp[i][j], f), shared.delta[r])), of.scale),
                  score.slope);
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
