// Cross-entropy over the positions of documents: statistics of each document,
// the sum of their losses, and the gradients of their logits.
#ifndef CASTOR_KERNELS_POSITION_LOSS_POSITION_LOSS_PROGRAM_H_
#define CASTOR_KERNELS_POSITION_LOSS_POSITION_LOSS_PROGRAM_H_

#include <cstdint>

#include "base/document_range.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/fault.h"
#include "kernels/head_loss/ignored_target.h"
#include "kernels/position_loss/document_at.h"

namespace castor::kernels::cuda {

// The arrays of a batch that the programs read.
template <class T>
struct PositionLogits {
  int64_t rows;       // N
  int64_t positions;  // of a sample
  int64_t columns;    // K
  int64_t column;
  const T* logits;                 // [N, K]
  const DocumentRange* documents;  // [N]; null: samples are documents
  const int32_t* targets;          // [N]

  CASTOR_HD float At(int64_t n) const {
    return Load(logits + n * columns + column);
  }
  CASTOR_HD DocumentRows Document(int64_t n) const {
    return DocumentAt(n, positions, documents);
  }
};

inline constexpr int kPositionThreads = 256;
inline constexpr int kPositionRows = kPositionThreads / kWarp;  // of a block

// lse: a warp has a row. Where a document that takes part begins there, a lane
// adds the exponentials of every 32nd position, and the warp's tree adds the
// lanes' sums.
template <class T>
struct PositionStatisticsProgram {
  static constexpr int kThreads = kPositionThreads;
  using Shared = NoShared;

  PositionLogits<T> of;
  float* lse;  // [N]
  Fault fault;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const int64_t first_row = block.index() * kPositionRows;
    typename Block::template PerThread<DocumentRows> document;
    typename Block::template PerThread<float> max, sum;
    block.EachUnsynced([&](int t) {
      const int64_t n = first_row + t / kWarp;
      document[t] = {0, 0};
      max[t] = MinusInfinity();
      if (n >= of.rows) return;
      const int32_t target = of.targets[n];
      if (target == kIgnoredTarget) return;
      const DocumentRows all = of.Document(n);
      const bool is_first = all.first == n;
      if (!is_first || target < 0 || target >= all.tokens) {
        if (t % kWarp == 0) {
          fault.Report(target, n, is_first ? all.tokens : 0);
        }
        return;
      }
      document[t] = all;
      for (int32_t i = t % kWarp; i < all.tokens; i += kWarp) {
        max[t] = fmaxf(max[t], of.At(all.first + i));
      }
    });
    block.Rejoin();
    block.WarpMax(max);
    block.EachUnsynced([&](int t) {
      sum[t] = 0.0f;
      // inf - inf shows as a NaN.
      for (int32_t i = t % kWarp; i < document[t].tokens; i += kWarp) {
        sum[t] = Add(sum[t], expf(Sub(of.At(document[t].first + i), max[t])));
      }
    });
    block.Rejoin();
    block.WarpSum(sum);
    block.EachUnsynced([&](int t) {
      const int64_t n = first_row + t / kWarp;
      if (n >= of.rows || t % kWarp != 0) return;
      lse[n] =
          document[t].tokens == 0
              ? 0.0f
              : static_cast<float>(max[t] + log(static_cast<double>(sum[t])));
    });
  }
};

// Computes the summed loss, and counts the documents that have no greater logit
// than their target's, in one block: threads add strided rows, and one tree
// adds their sums.
template <class T>
struct PositionFinishProgram {
  static constexpr int kThreads = 1024;
  struct Shared {
    double sum[kThreads];
    int32_t count[kThreads];
  };

  PositionLogits<T> of;
  const float* lse;  // [N]
  float scale;
  float* loss;       // [1]
  int32_t* correct;  // [1]; null: not counted

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    block.Each([&](int t) {
      double sum = 0;
      int32_t count = 0;
      for (int64_t n = t; n < of.rows; n += kThreads) {
        const int32_t target = of.targets[n];
        if (target == kIgnoredTarget) continue;
        const DocumentRows all = of.Document(n);
        if (all.first != n || target < 0 || target >= all.tokens) continue;
        const float logit = of.At(n + target);
        sum += static_cast<double>(lse[n]) - logit;
        if (correct == nullptr) continue;
        bool is_greatest = true;
        for (int32_t i = 0; i < all.tokens; ++i) {
          is_greatest = is_greatest && logit >= of.At(n + i);
        }
        count += is_greatest ? 1 : 0;
      }
      shared.sum[t] = sum;
      shared.count[t] = count;
    });
    for (int half = kThreads / 2; half > 1; half /= 2) {
      block.Each([&](int t) {
        if (t >= half) return;
        shared.sum[t] += shared.sum[t + half];
        shared.count[t] += shared.count[t + half];
      });
    }
    block.EachUnsynced([&](int t) {
      if (t != 0) return;
      *loss = static_cast<float>(scale * (shared.sum[0] + shared.sum[1]));
      if (correct != nullptr) *correct = shared.count[0] + shared.count[1];
    });
  }
};

// Backward: a thread computes the gradients of a row's logits.
template <class T>
struct PositionGradientProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  PositionLogits<T> of;
  const float* lse;  // [N]
  float loss_grad;
  T* dlogits;  // [N, K]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    ForEachElement(block, of.rows, [&](int64_t n) {
      const DocumentRows all = of.Document(n);
      const int32_t target = of.targets[all.first];
      float gradient = 0.0f;
      if (target >= 0 && target < all.tokens) {
        const float shifted = Sub(of.At(n), lse[all.first]);
        // p - 1 without cancellation for p near 1.
        gradient =
            Mul(n - all.first == target ? expm1f(shifted) : expf(shifted),
                loss_grad);
      }
      for (int64_t k = 0; k < of.columns; ++k) {
        Store(k == of.column ? gradient : 0.0f, dlogits + n * of.columns + k);
      }
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_POSITION_LOSS_POSITION_LOSS_PROGRAM_H_
