// Attention of a single query, as in text generation: ranges of its keys are
// processed concurrently, since a single block would go through all of them,
// and their results are joined in the order of the ranges. Source: Dao et al.,
// "Flash-Decoding for long-context inference", 2023.
#ifndef CASTOR_KERNELS_ATTENTION_RANGES_PROGRAM_H_
#define CASTOR_KERNELS_ATTENTION_RANGES_PROGRAM_H_

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

inline constexpr int kRangeKeys = 256;

// The results of the ranges of each head's keys, [B H, R, D + 2]: the sum of
// exp(s - max) v, then max and the sum of exp(s - max).
struct AttentionRanges {
  float* first;
  int64_t ranges;     // R
  int64_t head_size;  // D

  CASTOR_HD float* at(int64_t head, int64_t range) const {
    return first + (head * ranges + range) * (head_size + 2);
  }
};

// One block per head and range. The band has one query, and there is no
// dropout.
template <class T>
struct AttentionRangeProgram {
  static constexpr int kThreads = kRangeKeys;  // each has a key's probability
  static constexpr int kWarps = kThreads / kWarp;
  struct Shared {
    float s[kRangeKeys];
    float max[kWarps], sum[kWarps];
  };

  AttentionOperands<T> of;
  AttentionRanges to;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t head = block.index() / to.ranges;
    const int64_t range = block.index() % to.ranges;
    const auto keys = of.KeysOf(0, 0, 1);
    const int64_t begin = keys.begin + range * kRangeKeys;
    const int64_t count = Min<int64_t>(kRangeKeys, keys.end - begin);
    const T* const q = of.InQ(of.q, head).at(0);
    const RowsOfHead<const T> k = of.InK(of.k, of.KvHead(head));
    const RowsOfHead<const T> v = of.InK(of.v, of.KvHead(head));
    typename Block::template PerThread<float> x;
    // A warp processes a key.
    for (int base = 0; base < kRangeKeys; base += kWarps) {
      block.EachUnsynced([&](int t) {
        x[t] = 0.0f;
        const int64_t i = base + t / kWarp;
        if (i >= count) return;
        for (int64_t d = t % kWarp; d < of.head_size; d += kWarp) {
          x[t] = Fma(Load(q + d), Load(k.at(begin + i) + d), x[t]);
        }
      });
      block.Rejoin();
      block.WarpSum(x);
      block.Each([&](int t) {
        const int64_t i = base + t / kWarp;
        if (t % kWarp != 0) return;
        shared.s[i] = i < count ? of.Score(x[t]).s : MinusInfinity();
      });
    }
    block.EachUnsynced([&](int t) { x[t] = shared.s[t]; });
    block.WarpMax(x);
    block.Each([&](int t) {
      if (t % kWarp == 0) shared.max[t / kWarp] = x[t];
    });
    block.EachUnsynced([&](int t) {
      const float p = expf(Sub(shared.s[t], RowShift(Max(shared.max))));
      shared.s[t] = x[t] = p;
    });
    block.Rejoin();
    block.WarpSum(x);
    block.Each([&](int t) {
      if (t % kWarp == 0) shared.sum[t / kWarp] = x[t];
    });
    block.EachUnsynced([&](int t) {
      float* const result = to.at(head, range);
      for (int64_t d = t; d < of.head_size; d += kThreads) {
        float sum = 0.0f;
        for (int64_t i = 0; i < count; ++i) {
          sum = Fma(shared.s[i], Load(v.at(begin + i) + d), sum);
        }
        result[d] = sum;
      }
      if (t != 0) return;
      float sum = 0.0f;
      for (int w = 0; w < kWarps; ++w) sum = Add(sum, shared.sum[w]);
      result[of.head_size] = Max(shared.max);
      result[of.head_size + 1] = sum;
    });
  }

 private:
  CASTOR_HD static float Max(const float (&of_warps)[kWarps]) {
    float max = of_warps[0];
    for (int w = 1; w < kWarps; ++w) max = fmaxf(max, of_warps[w]);
    return max;
  }
};

// One block per head: the row of the output and its log-sum-exp.
template <class T>
struct AttentionJoinProgram {
  static constexpr int kThreads = 128;
  using Shared = NoShared;

  AttentionOperands<T> of;
  AttentionRanges from;
  T* out;      // [B, 1, C]
  float* lse;  // [B, H, 1]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const int64_t head = block.index();
    block.EachUnsynced([&](int t) {
      float max = MinusInfinity();
      for (int64_t r = 0; r < from.ranges; ++r) {
        max = fmaxf(max, from.at(head, r)[of.head_size]);
      }
      for (int64_t d = t; d < of.head_size; d += kThreads) {
        const Sums sums = Join(head, d, max);
        Store(Div(sums.of_values, sums.of_weights),
              of.InOut(out, head).at(0) + d);
      }
      if (t != 0) return;
      lse[of.InRows(head, 0)] = Add(max, logf(Join(head, 0, max).of_weights));
    });
  }

 private:
  struct Sums {
    float of_values, of_weights;
  };
  // Returns the sums over the ranges in their order, for a row whose maximum is
  // `max`.
  CASTOR_HD Sums Join(int64_t head, int64_t d, float max) const {
    Sums sums = {0.0f, 0.0f};
    for (int64_t r = 0; r < from.ranges; ++r) {
      const float* const range = from.at(head, r);
      const float by = expf(Sub(range[of.head_size], RowShift(max)));
      sums.of_values = Fma(range[d], by, sums.of_values);
      sums.of_weights = Fma(range[of.head_size + 1], by, sums.of_weights);
    }
    return sums;
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_RANGES_PROGRAM_H_
