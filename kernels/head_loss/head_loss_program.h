// Cross-entropy over tiles of the vocabulary: what happens to a tile of logits
// [N, W], which a matrix product has formed. A block has a row.
#ifndef CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_PROGRAM_H_
#define CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/fault.h"
#include "kernels/head_loss/ignored_target.h"

namespace castor::kernels::cuda {

inline constexpr int kHeadThreads = 256;

// What is known of the rows' logits after some tiles.
struct HeadRows {
  float* max;     // [N]
  double* sum;    // [N] of exp(logit - max)
  float* target;  // [N] the target's logit
};

// Adds a tile to what is known. Threads sum strided columns; their sums go
// through the warps' trees, and the warps' in order.
struct HeadStatisticsProgram {
  static constexpr int kThreads = kHeadThreads;
  static constexpr int kWarps = kThreads / kWarp;
  struct Shared {
    float max[kWarps];
    float sum[kWarps];
  };

  const float* logits;  // [N, W], `ld` apart
  int64_t ld;
  int64_t begin, columns;  // of the tile within the vocabulary
  int64_t vocabulary;
  const int32_t* targets;  // [N]
  HeadRows rows;
  Fault fault;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    using Values = typename Block::template PerThread<float>;
    const int64_t n = block.index();
    const float* x = logits + n * ld;
    Values max, sum;
    block.Each([&](int t) {
      max[t] = MinusInfinity();
      for (int64_t c = t; c < columns; c += kThreads) {
        max[t] = fmaxf(max[t], x[c]);
      }
    });
    block.WarpMax(max);
    block.Each([&](int t) {
      if (t % kWarp == 0) shared.max[t / kWarp] = max[t];
    });
    block.Each([&](int t) {
      float top = shared.max[0];
      for (int w = 1; w < kWarps; ++w) top = fmaxf(top, shared.max[w]);
      max[t] = top;
      sum[t] = 0.0f;
      for (int64_t c = t; c < columns; c += kThreads) {
        sum[t] = Add(sum[t], expf(Sub(x[c], top)));
      }
    });
    block.WarpSum(sum);
    block.Each([&](int t) {
      if (t % kWarp == 0) shared.sum[t / kWarp] = sum[t];
    });
    block.Each([&](int t) {
      if (t != 0) return;
      double total = 0;
      for (int w = 0; w < kWarps; ++w) total += shared.sum[w];
      Merge(n, max[t], total);
      const int32_t target = targets[n];
      if (target >= begin && target < begin + columns) {
        rows.target[n] = x[target - begin];
      } else if (begin == 0 && target != kIgnoredTarget &&
                 (target < 0 || target >= vocabulary)) {
        fault.Report(target, n, vocabulary);
      }
    });
  }

 private:
  CASTOR_HD void Merge(int64_t n, float max, double sum) const {
    if (begin == 0) {
      rows.max[n] = max;
      rows.sum[n] = sum;
      return;
    }
    const double before = rows.max[n];
    const float top = fmaxf(rows.max[n], max);
    // Nothing but -inf so far adds nothing; inf - inf shows as a NaN.
    const double scaled_before =
        top == rows.max[n] && !std::isinf(top)
            ? rows.sum[n]
            : rows.sum[n] * exp(before - static_cast<double>(top));
    rows.sum[n] = scaled_before + sum * exp(static_cast<double>(max) - top);
    rows.max[n] = top;
  }
};

// lse and the summed loss, from all tiles: one block. Threads add strided rows,
// their sums go through one tree.
struct HeadFinishProgram {
  static constexpr int kThreads = 1024;
  struct Shared {
    double sum[kThreads];
  };

  int64_t size;  // N
  int64_t vocabulary;
  const int32_t* targets;
  HeadRows rows;
  float* lse;   // [N]
  float* loss;  // [1]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    block.Each([&](int t) {
      double sum = 0;
      for (int64_t n = t; n < size; n += kThreads) {
        lse[n] = static_cast<float>(rows.max[n] + log(rows.sum[n]));
        const int32_t target = targets[n];
        if (target < 0 || target >= vocabulary) continue;
        sum += static_cast<double>(lse[n]) - rows.target[n];
      }
      shared.sum[t] = sum;
    });
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block.Each([&](int t) {
        if (t < half) shared.sum[t] += shared.sum[t + half];
      });
    }
    block.Each([&](int t) {
      if (t == 0) *loss = static_cast<float>(shared.sum[0]);
    });
  }
};

// Replaces a tile's logits by their gradients, (softmax - onehot) * loss_grad,
// as T. Of 16 bits, a row of W gradients lies in the first half of its logits'
// place: a round's columns are read before any is written, and what is written
// lies below what is still to be read.
template <class T>
struct HeadGradientProgram {
  static constexpr int kThreads = kHeadThreads;
  static constexpr int kEach = 4;
  using Shared = NoShared;

  float* logits;  // [N, W], `ld` floats apart
  int64_t ld;
  int64_t begin, columns, vocabulary;
  const int32_t* targets;
  const float* lse;
  float loss_grad;
  Fault fault;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const int64_t n = block.index();
    const float* x = logits + n * ld;
    T* gradient = reinterpret_cast<T*>(logits + n * ld);
    const int32_t target = targets[n];
    const bool ignored = target < 0 || target >= vocabulary;
    block.Each([&](int t) {
      if (t == 0 && begin == 0 && ignored && target != kIgnoredTarget) {
        fault.Report(target, n, vocabulary);
      }
    });
    struct Row {
      float value[kEach];
    };
    typename Block::template PerThread<Row> kept;
    for (int64_t from = 0; from < columns; from += kThreads * kEach) {
      block.Each([&](int t) {
        CASTOR_UNROLL
        for (int j = 0; j < kEach; ++j) {
          const int64_t c = from + j * kThreads + t;
          if (c >= columns) continue;
          const float shifted = Sub(x[c], lse[n]);
          // p - 1 without cancellation where p is nearly 1.
          const float p = begin + c == target ? expm1f(shifted) : expf(shifted);
          kept[t].value[j] = ignored ? 0.0f : Mul(p, loss_grad);
        }
      });
      block.Each([&](int t) {
        CASTOR_UNROLL
        for (int j = 0; j < kEach; ++j) {
          const int64_t c = from + j * kThreads + t;
          if (c < columns) Store(kept[t].value[j], gradient + c);
        }
      });
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_PROGRAM_H_
