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
  static constexpr int kParts = 1;  // blocks that share a tile
  static constexpr int kSlices = kD / kAttentionSlice;
  struct Shared {
    AttentionRows a, b;  // slices of q and k, or of dout and v
    AttentionScores s;
    float lse[kAttentionTile], delta[kAttentionTile];
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
    typename Block::template PerThread<AttentionScorePart> s, ds;
    block.EachUnsynced([&](int t) {
      dk_part[t].Clear();
      dv_part[t].Clear();
    });
    const auto queries = of.QueriesOf(key, kAttentionTile);
    for (int64_t member = 0; member < of.group; ++member) {
      const int64_t bh = of.HeadOf(kv_head, member);
      for (int64_t query = queries.begin; query < queries.end;
           query += kAttentionTile) {
        Products(block, shared, bh, query, key, s, ds);
        block.Each([&](int t) {
          Gradients(t, bh, query, key, shared, s[t], ds[t]);
          Put(t, s[t], shared.s);
          LoadRows(t, of.head_size, of.InOut(dout, bh), query, 0, shared.a);
        });
        AddSlices<true>(block, shared, of.InOut(dout, bh), query, dv_part);
        block.Each([&](int t) {
          Put(t, ds[t], shared.s);
          LoadRows(t, of.head_size, of.InQ(of.q, bh), query, 0, shared.a);
        });
        AddSlices<true>(block, shared, of.InQ(of.q, bh), query, dk_part);
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
    typename Block::template PerThread<AttentionScorePart> s, ds;
    const auto k = of.InK(of.k, of.KvHead(bh));
    block.EachUnsynced([&](int t) { dq_part[t].Clear(); });
    const auto keys = of.KeysOf(query, kAttentionTile);
    for (int64_t key = keys.begin; key < keys.end; key += kAttentionTile) {
      Products(block, shared, bh, query, key, s, ds);
      block.Each([&](int t) {
        Gradients(t, bh, query, key, shared, s[t], ds[t]);
        Put(t, ds[t], shared.s);
        LoadRows(t, of.head_size, k, key, 0, shared.a);
      });
      AddSlices<false>(block, shared, k, key, dq_part);
    }
    block.Each([&](int t) {
      dq_part[t].Write(t, query, of.head_size, of.InQ(dq, bh));
    });
  }

  // s = q k^T and dp = dout v^T of a tile, and its queries' lse and delta.
  template <class Block, class Parts>
  CASTOR_HD void Products(Block& block, Shared& shared, int64_t bh,
                          int64_t query, int64_t key, Parts& s,
                          Parts& dp) const {
    const int64_t kv_head = of.KvHead(bh);
    const auto add = [&](const auto& rows, const auto& columns, Parts& sums) {
      CASTOR_UNROLL
      for (int slice = 0; slice < kSlices; ++slice) {
        block.Each([&](int t) {
          LoadRows(t, of.head_size, rows, query, slice, shared.a);
          LoadRows(t, of.head_size, columns, key, slice, shared.b);
          if (slice == 0) sums[t].Clear();
        });
        block.Each([&](int t) {
          AddRowProducts(t, of.head_size, slice, shared.a, shared.b, sums[t]);
        });
      }
    };
    block.EachUnsynced([&](int t) {
      if (t >= kAttentionTile) return;
      // Rows behind the end have p = exp(0 - inf) = 0.
      const bool inside = query + t < of.band.queries;
      const int64_t at = of.InRows(bh, query + t);
      shared.lse[t] = inside ? lse[at] : -MinusInfinity();
      shared.delta[t] = inside ? delta[at] : 0.0f;
    });
    add(of.InQ(of.q, bh), of.InK(of.k, kv_head), s);
    add(of.InOut(dout, bh), of.InK(of.v, kv_head), dp);
  }

  // part += s b, or s^T b, with s in shared memory: b are rows [begin, begin +
  // 64) of `from`, whose first slice is there, too.
  template <bool kTranspose, class Block, class Part>
  CASTOR_HD void AddSlices(Block& block, Shared& shared,
                           const RowsOfHead<const float>& from, int64_t begin,
                           Part& part) const {
    CASTOR_UNROLL
    for (int slice = 0; slice < kSlices; ++slice) {
      if (slice > 0) {
        block.Each([&](int t) {
          LoadRows(t, of.head_size, from, begin, slice, shared.a);
        });
      }
      block.Each([&](int t) {
        part[t].template AddProduct<kTranspose>(t, shared.s, shared.a, slice);
      });
    }
  }

  // p = exp(s - lse) and ds = p (dp f - delta) scale slope for this thread's
  // part of the tile, f the dropout's factors and slope the soft cap's. `s` is
  // q k^T and becomes p f, `ds` is dp at first.
  CASTOR_HD void Gradients(int t, int64_t bh, int64_t query, int64_t key,
                           const Shared& shared, AttentionScorePart& s,
                           AttentionScorePart& ds) const {
    WordReader words(of.key);
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      CASTOR_UNROLL
      for (int j = 0; j < kMicro; ++j) {
        const int r = t / kSide + kSide * i;
        const int c = t % kSide + kSide * j;
        const float dp = ds.at[i][j];
        float pf = 0.0f;
        ds.at[i][j] = 0.0f;
        if (of.band.Sees(query + r, key + c)) {
          const auto score = of.Score(s.at[i][j]);
          const float f =
              of.drops ? of.Factor(words, of.Element(bh, query + r, key + c))
                       : 1.0f;
          const float p = expf(Sub(score.s, shared.lse[r]));
          pf = Mul(p, f);
          ds.at[i][j] =
              Mul(Mul(Mul(p, Sub(Mul(dp, f), shared.delta[r])), of.scale),
                  score.slope);
        }
        s.at[i][j] = pf;
      }
    }
  }

  CASTOR_HD static void Put(int t, const AttentionScorePart& part,
                            AttentionScores& s) {
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      CASTOR_UNROLL
      for (int j = 0; j < kMicro; ++j) {
        s[t / kSide + kSide * i][t % kSide + kSide * j] = part.at[i][j];
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_BACKWARD_PROGRAM_H_
