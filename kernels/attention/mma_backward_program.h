// Attention's backward pass on the matrix units, for 16-bit types. Source: Dao,
// "FlashAttention-2", 2023, algorithm 2, except that blocks add to dq in turns
// (turns.h), so that its sums have one order.
//
// A block has a tile of keys and sums of dk and dv in registers, and steps
// through the queries: scores are [keys, queries]. The scores' gradients go
// through shared memory, since a query's keys are spread over all warps; of dq
// each warp has all of the step's queries and some of the channels. The sums of
// the tiles of keys so far are in `sums`, in the order of the lanes: the first
// tile writes them, and the last one's results are dq.
//
// Heads of 256 channels: a thread's registers hold the sums of dk and dv for
// 128 of them, so that two blocks share a tile of keys, each with all of its
// scores and half of its channels; and shared memory holds one step at a time.
#ifndef CASTOR_KERNELS_ATTENTION_MMA_BACKWARD_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_MMA_BACKWARD_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/mma_tile.h"
#include "kernels/attention/turns.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

template <class T, int kD, bool kDrops>
struct AttentionMmaBackwardProgram {
  static constexpr bool kTakesTurns = true;
  static constexpr int kThreads = kMmaThreads;
  static constexpr int kWarps = kMmaWarps;
  static constexpr int kM = kD == 64 ? 2 : 1;
  static constexpr int kRows = kMmaWarps * kM * kMmaRows;  // keys
  static constexpr int kStep = 32;                         // queries
  static constexpr int kN = kStep / kMmaColumns;
  static constexpr int kStages = kD == 256 ? 1 : 2;
  static constexpr int kParts = kD == 256 ? 2 : 1;  // of channels
  static constexpr int kColumns = kD / kParts;
  // A lane has [16 kQueryM, 8 kQueryN] of a step's dq, in runs of four.
  static constexpr int kQueryM = kStep / kMmaRows;
  static constexpr int kQueryN = kColumns / kMmaWarps / kMmaColumns;
  static constexpr int kStepSums = kStep * kColumns;
  static_assert(kRun == 4 && kStepSums == kThreads * kQueryM * kQueryN * kRun);
  using Kept = KeptScores<kStep, kRows, kStages, kDrops>;
  using Seen = SeenKeys<uint8_t>;  // of the block's keys
  using ScoreRows = MatrixRows<T, kRows, kStep>;
  struct Rows {
    MatrixRows<T, kStep, kD> q, dout;
  };
  // The gradients of the scores take the place of the rows once these have been
  // read.
  union Step {
    Rows rows;
    ScoreRows ds;
  };
  static_assert(sizeof(ScoreRows) <= sizeof(Rows));
  struct Shared : Kept {
    MatrixRows<T, kRows, kD> k, v;
    Step step[kStages];
    // The step's queries' lse, in powers of two, and delta.
    float lse[kStages][kStep], delta[kStages][kStep];
    Seen seen[kStages][kStep];  // by the step's queries
    uint32_t number;
    const DocumentRange* documents;  // of the sample
  };
  using Scores = MmaSums<kM, kN>;
  using QuerySums = MmaSums<kQueryM, kQueryN>;

  AttentionOperands<T> of;
  AttentionTurns turns;
  const T* dout;       // [B, T, C]
  const float* lse;    // [B, H, T]
  const float* delta;  // [B, H, T]
  float* sums;         // [B H, steps, kParts, kStepSums]
  T *dq, *dk, *dv;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    block.Each([&](int t) {
      if (t != 0) return;
      shared.number = Block::TakeNumber(turns.begun);
      const int64_t head = turns.WorkOf(shared.number).kv_head;
      shared.documents = of.BandOfKeys(head).documents;
    });
    const AttentionTurns::Work work = turns.WorkOf(shared.number);
    const int column = work.part * kColumns;
    const int begin = work.tile * kRows;
    auto now = AttentionSteps<kStep>::Of(
        of, work.kv_head, of.QueriesOf(work.kv_head, begin, kRows));

    const auto load_step = [&](int t, const AttentionSteps<kStep>& step,
                               int stage) {
      const int at = step.query;
      shared.FillKept(t, of, stage, step.head, at, begin);
      LoadAhead(block, t, of, of.InQ(of.q, step.head), at,
                shared.step[stage].rows.q);
      LoadAhead(block, t, of, of.InOut(dout, step.head), at,
                shared.step[stage].rows.dout);
      if (t >= kStep) return;
      // After the end q, dout and so delta are 0: these rows add nothing.
      const bool inside = at + t < of.band.queries;
      const int64_t row = of.InRows(step.head, at + t);
      shared.lse[stage][t] = inside ? Mul(lse[row], kLog2E) : 0.0f;
      shared.delta[stage][t] = inside ? delta[row] : 0.0f;
      shared.seen[stage][t] = SeenInTile<kRows>(BandIn(shared), at + t, begin);
    };

    constexpr int kSums = kColumns / kMmaColumns;
    typename Block::template PerThread<MmaSums<kM, kSums>> dk_sums, dv_sums;
    typename Block::template PerThread<Scores> p, ds;
    typename Block::template PerThread<QuerySums> dq_sums;
    typename Block::template PerThread<uint32_t> seen;
    block.EachUnsynced([&](int t) {
      load_step(t, now, 0);
      LoadAhead(block, t, of, of.InK(of.k, work.kv_head), begin, shared.k);
      LoadAhead(block, t, of, of.InK(of.v, work.kv_head), begin, shared.v);
      dk_sums[t].Clear();
      dv_sums[t].Clear();
    });
    int stage = 0;
    auto pass = AttentionPass::None();
    while (now.more()) {
      const auto next = now.Next(of);
      const auto turn = AttentionTurn::Of<kRows, kStep>(
          turns, of.KeysIn(BandIn(shared), now.query, kStep), work, now.head,
          now.query);
      block.WaitForCopies();
      block.Renew();
      block.EachUnsynced([&](int t) {
        seen[t] = turn.Look(block, t, turns);
        if (kStages == 2 && next.more()) load_step(t, next, stage ^ 1);
      });
      block.Rejoin();
      auto& step = shared.step[stage];
      RowProducts<kM>(block, shared.k, step.rows.q, p);
      RowProducts<kM>(block, shared.v, step.rows.dout, ds);
      block.EachUnsynced([&](int t) {
        // A barrier has passed since the warp's writes of the last step, so
        // they have arrived.
        pass.On(block, t, turns);
        // There are two paths, so that the one without a cap has no cost for
        // it.
        if (of.softcap > 0.0f) {
          Gradients<true>(t, shared, stage, p[t], ds[t]);
        } else {
          Gradients<false>(t, shared, stage, p[t], ds[t]);
        }
      });
      block.Rejoin();
      AddProduct<kM, kSums>(block, p, step.rows.dout, column, dv_sums);
      AddProduct<kM, kSums>(block, ds, step.rows.q, column, dk_sums);
      block.Each([](int) {});  // all have read the step's rows
      block.Renew();
      block.EachUnsynced([&](int t) {
        PutScores(t, ds[t], step.ds);
        turn.Wait(block, t, turns, seen[t]);
      });
      block.Rejoin();
      float* const sums_of_step = SumsOf(now, work.part);
      block.Each([&](int t) {
        if (turn.first()) {
          dq_sums[t].Clear();
        } else {
          ForRuns(
              t,
              [&](float* run, int64_t at) { LoadRun(sums_of_step + at, run); },
              dq_sums[t]);
        }
      });
      AddColumnProducts<kQueryN>(block, step.ds, shared.k, column, dq_sums);
      block.EachUnsynced([&](int t) {
        if (turn.last) {
          WriteRows<kQueryM>(t % kWarp, of, dq_sums[t], now.query,
                             column + t / kWarp * kQueryN * kMmaColumns,
                             of.InQ(dq, now.head),
                             [&](int, int) { return of.scale; });
        } else {
          ForRuns(
              t,
              [&](float* run, int64_t at) { StoreRun(run, sums_of_step + at); },
              dq_sums[t]);
        }
      });
      if (kStages == 1 && next.more()) {
        block.Each([](int) {});  // and its scores
        block.EachUnsynced([&](int t) { load_step(t, next, 0); });
        block.Rejoin();
      }
      pass = AttentionPass::Of(turn);
      now = next;
      stage ^= kStages - 1;
    }
    block.Rejoin();
    block.EachUnsynced([&](int t) {
      pass.On(block, t, turns);
      WriteRows<kM>(t, of, dk_sums[t], begin, column, of.InK(dk, work.kv_head),
                    [&](int, int) { return of.scale; });
      WriteRows<kM>(t, of, dv_sums[t], begin, column, of.InK(dv, work.kv_head),
                    [&](int, int) { return kDrops ? of.kept : 1.0f; });
    });
  }

 private:
  // Returns the band with the sample's documents.
  CASTOR_HD AttentionBand BandIn(const Shared& shared) const {
    AttentionBand own = of.band;
    own.documents = shared.documents;
    return own;
  }
  CASTOR_HD float* SumsOf(const AttentionSteps<kStep>& step, int part) const {
    const int64_t at = step.head * turns.steps + step.query / kStep;
    return sums + (at * kParts + part) * kStepSums;
  }
  // Calls f for each run of thread t, with its place in a step's sums, where
  // the lanes' runs are adjacent.
  template <class F>
  CASTOR_HD static void ForRuns(int t, const F& f, QuerySums& of_thread) {
    CASTOR_UNROLL
    for (int m = 0; m < kQueryM; ++m) {
      CASTOR_UNROLL
      for (int n = 0; n < kQueryN; ++n) {
        f(of_thread.at[m][n], ((m * kQueryN + n) * kThreads + t) * kRun);
      }
    }
  }

  // p is k q^T and ds is v dout^T at first. Then, with f the dropout's factors,
  // 0 or c, p = exp(s - lse) f / c and ds = exp(s - lse) (ds f - delta) slope,
  // slope the soft cap's; the sums are scaled, dv's by c.
  template <bool kCaps>
  CASTOR_HD void Gradients(int t, const Shared& shared, int stage, Scores& p,
                           Scores& ds) const {
    const float scale = Mul(of.scale, kLog2E);
    // Only tiles at the band's edges and at the end have masked scores.
    const TileMask<true, Seen> mask = {shared.seen[stage], 0};
    CASTOR_UNROLL
    for (int n = 0; n < kN; ++n) {
      CASTOR_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int query = MmaColumn(t, n, i);
        const float lse = shared.lse[stage][query];
        const float delta = shared.delta[stage][query];
        CASTOR_UNROLL
        for (int r = 0; r < 2 * kM; ++r) {
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
            // One word has the bits of all of a thread's keys.
            const uint32_t keeps =
                shared.KeptFrom(stage, query, MmaRow<kM>(t, 0, 0)) >>
                (r / 2 * kMmaRows + r % 2 * 8);
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
    CASTOR_UNROLL
    for (int n = 0; n < kN; ++n) {
      CASTOR_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int query = MmaColumn(t, n, i);
        CASTOR_UNROLL
        for (int r = 0; r < 2 * kM; ++r) {
          if (mask.Counts(MmaRow<kM>(t, r / 2, r % 2 * 2), query)) continue;
          p.at[r / 2][n][r % 2 * 2 + i] = 0.0f;
          ds.at[r / 2][n][r % 2 * 2 + i] = 0.0f;
        }
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_MMA_BACKWARD_PROGRAM_H_
