// Attention's backward pass on the matrix units, for 16-bit types. Source: Dao,
// "FlashAttention-2", 2023, algorithm 2, but that it runs twice over the
// scores, once by keys (dk, dv) and once by queries (dq): nothing is added by
// atomics, so that sums have one order, for 7 products instead of 5.
//
// Heads of 256 channels: a thread's registers hold the sums of dk and dv for
// 128 of them, so that two blocks share a tile of keys, each with all of its
// scores and half of its channels; and shared memory holds one step at a time.
#ifndef CASTOR_KERNELS_ATTENTION_MMA_BACKWARD_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_MMA_BACKWARD_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/mma_tile.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// dk and dv where kKeys: a block per tile of keys steps through all queries
// that see it, and its scores are [keys, queries]. Otherwise dq: a block per
// tile of queries steps through the keys that it sees, scores are [queries,
// keys].
template <class T, int kD, bool kKeys, bool kDrops>
struct AttentionMmaBackwardProgram {
  static constexpr int kThreads = kMmaThreads;
  static constexpr int kM = kD == 64 ? 2 : 1;
  static constexpr int kRows = kMmaWarps * kM * kMmaRows;
  static constexpr int kStep = 32;
  static constexpr int kN = kStep / kMmaColumns;
  static constexpr int kStages = kD == 256 ? 1 : 2;
  static constexpr int kParts = kD == 256 && kKeys ? 2 : 1;  // of channels
  static constexpr int kColumns = kD / kParts;
  static_assert(kRows % kStep == 0);
  static_assert(kN == kMmaPerWord);
  using Kept = KeptScores<kKeys ? kStep : kRows, kKeys ? kRows : kStep, kDrops>;
  struct Shared {
    MatrixRows<T, kRows, kD> rows[2];           // k, v; or q, dout
    MatrixRows<T, kStep, kD> step[kStages][2];  // q, dout; or k, v
    // If kKeys, the step's queries' lse, in powers of two, and delta.
    float lse[kStages][kStep], delta[kStages][kStep];
    Kept kept[kStages];
  };
  using Scores = MmaSums<kM, kN>;

  AttentionOperands<T> of;
  int64_t batch_heads;  // B H; B K where kKeys
  const T* dout;        // [B, T, C]
  const float* lse;     // [B, H, T]
  const float* delta;   // [B, H, T]
  T *dq, *dk, *dv;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    // `own` is a head of queries, or where kKeys one of keys.
    const int64_t own = block.index() / kParts % batch_heads;
    const int column = static_cast<int>(block.index() % kParts) * kColumns;
    const int64_t kv_head = kKeys ? own : of.KvHead(own);
    const int64_t tile = block.index() / kParts / batch_heads;
    // The longest first.
    const int64_t begin =
        (kKeys ? tile : of.Tiles(of.band.queries, kRows) - 1 - tile) * kRows;
    const auto range =
        kKeys ? of.QueriesOf(begin, kRows) : of.KeysOf(begin, kRows);
    // The heads of queries whose steps follow each other.
    const int64_t first_head = kKeys ? of.HeadOf(kv_head, 0) : own;
    const int64_t end_head = kKeys ? first_head + of.group : own + 1;

    const auto load_queries = [&](int t, int64_t head, int64_t at,
                                  auto& tiles) {
      LoadAhead(block, t, of, of.InQ(of.q, head), at, tiles[0]);
      LoadAhead(block, t, of, of.InOut(dout, head), at, tiles[1]);
    };
    const auto load_keys = [&](int t, int64_t at, auto& tiles) {
      LoadAhead(block, t, of, of.InK(of.k, kv_head), at, tiles[0]);
      LoadAhead(block, t, of, of.InK(of.v, kv_head), at, tiles[1]);
    };
    const auto load_step = [&](int t, int64_t head, int64_t at, int stage) {
      auto& step = shared.step[stage];
      shared.kept[stage].Fill(t, of, head, kKeys ? at : begin,
                              kKeys ? begin : at);
      if constexpr (kKeys) {
        load_queries(t, head, at, step);
        if (t >= kStep) return;
        shared.lse[stage][t] = Lse(head, at + t);
        shared.delta[stage][t] = Delta(head, at + t);
      } else {
        load_keys(t, at, step);
      }
    };

    constexpr int kSums = kColumns / kMmaColumns;
    typename Block::template PerThread<MmaSums<kM, kSums>> sums[2];
    typename Block::template PerThread<Scores> p, ds;
    typename Block::template PerThread<QueryRows> queries;
    block.EachUnsynced([&](int t) {
      load_step(t, first_head, range.begin, 0);
      sums[0][t].Clear();
      if constexpr (kKeys) {
        load_keys(t, begin, shared.rows);
        sums[1][t].Clear();
      } else {
        load_queries(t, own, begin, shared.rows);
        CASTOR_UNROLL
        for (int r = 0; r < 2 * kM; ++r) {
          const int64_t row = begin + MmaRow<kM>(t, r / 2, r % 2 * 2);
          queries[t].lse[r] = Lse(own, row);
          queries[t].delta[r] = Delta(own, row);
        }
      }
    });
    int stage = 0;
    int64_t head = first_head;
    int64_t at = range.begin;
    // The keys that no query sees have no step.
    while (range.begin < range.end && head < end_head) {
      const bool last = at + kStep >= range.end;  // of the head's steps
      const int64_t next_head = last ? head + 1 : head;
      const int64_t next = last ? range.begin : at + kStep;
      block.WaitForCopies();
      if (kStages == 2 && next_head < end_head) {
        block.EachUnsynced(
            [&](int t) { load_step(t, next_head, next, stage ^ 1); });
        block.Rejoin();
      }
      const auto& step = shared.step[stage];
      RowProducts<kM>(block, shared.rows[0], step[0], p);
      RowProducts<kM>(block, shared.rows[1], step[1], ds);
      block.EachUnsynced([&](int t) {
        // Two paths, so that the one without a cap is free of it.
        if (of.softcap > 0.0f) {
          Gradients<true>(t, begin, at, queries[t], shared, stage, p[t], ds[t]);
        } else {
          Gradients<false>(t, begin, at, queries[t], shared, stage, p[t],
                           ds[t]);
        }
      });
      if constexpr (kKeys) {
        AddProduct<kM, kSums>(block, p, step[1], column, sums[1]);
      }
      AddProduct<kM, kSums>(block, ds, step[0], column, sums[0]);
      if (kStages == 1 && next_head < end_head) {
        block.Each([](int) {});  // all have read this step
        block.EachUnsynced([&](int t) { load_step(t, next_head, next, 0); });
        block.Rejoin();
      }
      head = next_head;
      at = next;
      stage ^= kStages - 1;
    }
    block.EachUnsynced([&](int t) {
      const auto scale = [&](int, int) { return of.scale; };
      if constexpr (kKeys) {
        WriteRows<kM>(t, of, sums[0][t], begin, column, of.InK(dk, kv_head),
                      scale);
        WriteRows<kM>(t, of, sums[1][t], begin, column, of.InK(dv, kv_head),
                      [&](int, int) { return kDrops ? of.kept : 1.0f; });
      } else {
        WriteRows<kM>(t, of, sums[0][t], begin, column, of.InQ(dq, own), scale);
      }
    });
  }

 private:
  // What a thread knows of its rows, where these are queries.
  struct QueryRows {
    float lse[2 * kM], delta[2 * kM];
  };

  // Behind the end q, dout and so delta are 0: these rows add nothing.
  CASTOR_HD float Lse(int64_t head, int64_t query) const {
    return query < of.band.queries ? Mul(lse[of.InRows(head, query)], kLog2E)
                                   : 0.0f;
  }
  CASTOR_HD float Delta(int64_t head, int64_t query) const {
    return query < of.band.queries ? delta[of.InRows(head, query)] : 0.0f;
  }

  // p is q k^T and ds is dout v^T at first. Then, with f the dropout's factors,
  // 0 or c, p = exp(s - lse) f / c and ds = exp(s - lse) (ds f - delta) slope,
  // slope the soft cap's; the sums are scaled, dv's by c.
  template <bool kCaps>
  CASTOR_HD void Gradients(int t, int64_t begin, int64_t at,
                           const QueryRows& queries, const Shared& shared,
                           int stage, Scores& p, Scores& ds) const {
    const float scale = Mul(of.scale, kLog2E);
    // Only tiles at the band's edges and at the end have scores that don't
    // count; rows behind the end are nobody's.
    const TileMask mask = TileMask::Of<kKeys>(of.band, begin, at);
    CASTOR_UNROLL
    for (int n = 0; n < kN; ++n) {
      CASTOR_UNROLL
      for (int i = 0; i < 2; ++i) {
        CASTOR_UNROLL
        for (int r = 0; r < 2 * kM; ++r) {
          const int column = MmaColumn(t, n, i);
          const float lse = kKeys ? shared.lse[stage][column] : queries.lse[r];
          const float delta =
              kKeys ? shared.delta[stage][column] : queries.delta[r];
          float& s = p.at[r / 2][n][r % 2 * 2 + i];
          float& d = ds.at[r / 2][n][r % 2 * 2 + i];
          float e, slope = 1.0f;
          if constexpr (kCaps) {
            const auto score = of.Score(s);
            e = Exp2(Fma(score.s, kLog2E, -lse));
            slope = score.slope;
          } else {
            e = Exp2(Fma(s, scale, -lse));
          }
          s = e;
          if constexpr (kDrops) {
            // A word of bits serves all of a thread's keys.
            const Kept& kept = shared.kept[stage];
            const int row = MmaRow<kM>(t, r / 2, r % 2 * 2);
            const uint32_t keeps =
                kKeys ? kept.From(column, MmaRow<kM>(t, 0, 0)) >>
                            (r / 2 * kMmaRows + r % 2 * 8)
                      : kept.From(row, MmaColumn(t, 0, 0)) >>
                            (n * kMmaColumns + i);
            s = (keeps & 1u) != 0 ? e : 0.0f;
            d = (keeps & 1u) != 0 ? d : 0.0f;
            d = Mul(e, Fma(d, of.kept, -delta));
          } else {
            d = Mul(e, Sub(d, delta));
          }
          if constexpr (kCaps) d = Mul(d, slope);
        }
      }
    }
    if (mask.IsAll(kRows, kStep)) return;
    Mask(t, mask, 0.0f, p);
    Mask(t, mask, 0.0f, ds);
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_MMA_BACKWARD_PROGRAM_H_
