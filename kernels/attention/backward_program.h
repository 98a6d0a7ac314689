// Attention's backward pass in fp32, from the rows' log-sum-exp. Source: Dao,
// "FlashAttention-2", 2023, algorithm 2, except that blocks add to dq in turns
// (turns.h), so that its sums have one order: that of the keys. The sums of dk
// and dv go from the last query to the first.
//
// A thread's registers hold the sums of dk and dv for up to 128 channels. For
// larger heads two blocks share a tile of keys, each with all of its scores and
// half of its channels.
#ifndef CASTOR_KERNELS_ATTENTION_BACKWARD_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_BACKWARD_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/tile.h"
#include "kernels/attention/turns.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

template <int kD>
struct AttentionBackwardProgram {
  static constexpr bool kTakesTurns = true;
  static constexpr int kThreads = kAttentionThreads;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kRows = kAttentionTile;      // keys
  static constexpr int kStep = kAttentionTile;      // queries
  static constexpr int kParts = kD == 256 ? 2 : 1;  // of channels
  static constexpr int kColumns = kD / kParts;
  static constexpr int kSlices = kD / kAttentionSlice;
  static constexpr int kOwnSlices = kSlices / kParts;
  static constexpr int kStepSums = 0;  // dq itself has the sums
  struct Shared {
    AttentionRows a, b;  // slices of q and k, or of dout and v
    AttentionScores s;
    float lse[kAttentionTile], delta[kAttentionTile];
    uint32_t number;
  };
  AttentionOperands<float> of;
  AttentionTurns turns;
  const float* dout;   // [B, T, C]
  const float* lse;    // [B, H, T]
  const float* delta;  // [B, H, T]
  float* sums;         // none
  float *dq, *dk, *dv;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    block.Each([&](int t) {
      if (t == 0) shared.number = Block::TakeNumber(turns.begun);
    });
    const AttentionTurns::Work work = turns.WorkOf(shared.number);
    const int key = work.tile * kRows;
    const int first_slice = work.part * kOwnSlices;
    typename Block::template PerThread<AttentionPart<kColumns>> dk_part,
        dv_part;
    typename Block::template PerThread<AttentionScorePart> s, ds;
    block.EachUnsynced([&](int t) {
      dk_part[t].Clear();
      dv_part[t].Clear();
    });
    for (auto now = AttentionSteps<kStep>::Of(
             of, work.kv_head, of.QueriesOf(work.kv_head, key, kRows));
         now.more(); now = now.Next(of)) {
      const int query = now.query;
      const auto q = of.InQ(of.q, now.head);
      const auto douts = of.InOut(dout, now.head);
      Products(block, shared, now.head, query, key, s, ds);
      block.Each([&](int t) {
        Gradients(t, now.head, query, key, shared, s[t], ds[t]);
        Put(t, s[t], shared.s);
        LoadRows(t, of.head_size, douts, query, first_slice, shared.a);
      });
      AddSlices(block, shared, douts, query, first_slice, dv_part);
      block.Each([&](int t) {
        Put(t, ds[t], shared.s);
        LoadRows(t, of.head_size, q, query, first_slice, shared.a);
      });
      AddSlices(block, shared, q, query, first_slice, dk_part);
      AddToQueries(block, shared, work, now.head, query);
    }
    block.EachUnsynced([&](int t) {
      const int channel = first_slice * kAttentionSlice;
      dk_part[t].Write(t, key, channel, of.head_size, of.InK(dk, work.kv_head));
      dv_part[t].Write(t, key, channel, of.head_size, of.InK(dv, work.kv_head));
    });
  }

 private:
  // dq of a step += ds k, with ds in shared memory.
  template <class Block>
  CASTOR_HD void AddToQueries(Block& block, Shared& shared,
                              const AttentionTurns::Work& work, int head,
                              int query) const {
    typename Block::template PerThread<AttentionPart<kAttentionSlice>> sum;
    const auto turn = AttentionTurn::Of<kRows, kStep>(
        turns, of.KeysOf(head, query, kStep), work, head, query);
    const auto k = of.InK(of.k, work.kv_head);
    const auto to = of.InQ(dq, head);
    CASTOR_UNROLL
    for (int i = 0; i < kOwnSlices; ++i) {
      const int slice = work.part * kOwnSlices + i;
      const int channel = slice * kAttentionSlice;
      block.Each([&](int t) {
        LoadRows(t, of.head_size, k, work.tile * kRows, slice, shared.a);
        if (i == 0) turn.Wait(block, t, turns, turn.Look(block, t, turns));
      });
      block.Each([&](int t) {
        if (turn.first()) {
          sum[t].Clear();
        } else {
          sum[t].Read(t, query, channel, of.head_size, to);
        }
        sum[t].template AddProduct<false>(t, shared.s, shared.a, 0);
        sum[t].Write(t, query, channel, of.head_size, to);
      });
    }
    block.EachUnsynced(
        [&](int t) { AttentionPass::Of(turn).On(block, t, turns); });
    block.Rejoin();
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
      // Rows after the end have p = exp(0 - inf) = 0.
      const bool inside = query + t < of.band.queries;
      const int64_t at = of.InRows(bh, query + t);
      shared.lse[t] = inside ? lse[at] : -MinusInfinity();
      shared.delta[t] = inside ? delta[at] : 0.0f;
    });
    add(of.InQ(of.q, bh), of.InK(of.k, kv_head), s);
    add(of.InOut(dout, bh), of.InK(of.v, kv_head), dp);
  }

  // part += s^T b, with s in shared memory: b are rows [begin, begin + 64) of
  // `from`, the block's first slice of which is there, too.
  template <class Block, class Part>
  CASTOR_HD void AddSlices(Block& block, Shared& shared,
                           const RowsOfHead<const float>& from, int64_t begin,
                           int first_slice, Part& part) const {
    CASTOR_UNROLL
    for (int i = 0; i < kOwnSlices; ++i) {
      if (i > 0) {
        block.Each([&](int t) {
          LoadRows(t, of.head_size, from, begin, first_slice + i, shared.a);
        });
      }
      block.Each([&](int t) {
        part[t].template AddProduct<true>(t, shared.s, shared.a, i);
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
    const AttentionBand band = of.BandOf(bh);
    CASTOR_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      const int r = t / kSide + kSide * i;
      const int64_t first = band.FirstKey(query + r);
      const int64_t end = band.EndKey(query + r);
      CASTOR_UNROLL
      for (int j = 0; j < kMicro; ++j) {
        const int c = t % kSide + kSide * j;
        const float dp = ds.at[i][j];
        float pf = 0.0f;
        ds.at[i][j] = 0.0f;
        if (first <= key + c && key + c < end) {
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
