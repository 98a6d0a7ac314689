// Cross-entropy over tiles of the vocabulary: the programs that process a tile
// of logits [N, W], the result of a matrix product, to which they add the bias
// as they read it. A warp has a row, or a segment of it, and needs no other
// warp, so there is no barrier.
#ifndef CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_PROGRAM_H_
#define CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/fault.h"
#include "kernels/head_loss/ignored_target.h"

namespace castor::kernels::cuda {

inline constexpr int kHeadThreads = 256;
inline constexpr int kHeadRows = kHeadThreads / kWarp;  // of a block

// The columns of the vocabulary in one segment of a row's sum, independent of
// tiles.
inline constexpr int kHeadSegment = 512;

// The state of each segment of each row, and of the rows' targets.
struct HeadSegments {
  float* max;     // [segments, N]
  float* sum;     // [segments, N] of exp(logit - max)
  float* target;  // [N] the target's logit
};

// Returns the logit of column `column` of the vocabulary: x, from the product,
// plus its bias, if there are any.
template <class T>
CASTOR_HD float WithBias(float x, const T* bias, int64_t column) {
  return bias == nullptr ? x : Add(x, Load(bias + column));
}

// A lane's part of kColumns adjacent logits: runs of four, which its warp reads
// 512 bytes at a time.
template <int kColumns>
struct LogitsOfLane {
  static constexpr int kRunsOfLane = kColumns / (kWarp * kRun);
  float at[kRunsOfLane][kRun];

  // Returns the first column of run r.
  CASTOR_HD static int Column(int lane, int r) {
    return (r * kWarp + lane) * kRun;
  }
  // Loads `columns` logits from x, at a multiple of 16 bytes, and sets those
  // after them to -inf.
  CASTOR_HD void LoadFrom(const float* x, int lane, int64_t columns) {
    if (columns >= kColumns) {
      CASTOR_UNROLL
      for (int r = 0; r < kRunsOfLane; ++r) LoadRun(x + Column(lane, r), at[r]);
      return;
    }
    CASTOR_UNROLL
    for (int r = 0; r < kRunsOfLane; ++r) {
      CASTOR_UNROLL
      for (int i = 0; i < kRun; ++i) {
        const int c = Column(lane, r) + i;
        at[r][i] = c < columns ? x[c] : MinusInfinity();
      }
    }
  }
  // Adds the biases of these logits, `bias` being the first one's, to the first
  // `columns` of them. Null: there are none.
  template <class T>
  CASTOR_HD void AddBias(const T* bias, int lane, int64_t columns) {
    if (bias == nullptr) return;
    CASTOR_UNROLL
    for (int r = 0; r < kRunsOfLane; ++r) {
      CASTOR_UNROLL
      for (int i = 0; i < kRun; ++i) {
        const int c = Column(lane, r) + i;
        if (c < columns) at[r][i] = Add(at[r][i], Load(bias + c));
      }
    }
  }
};

// Forward: a warp processes a segment of a row of the tile. A lane adds its
// logits in order, and the warp's tree adds the lanes' sums. T: the bias's
// type.
template <class T>
struct HeadStatisticsProgram {
  static constexpr int kThreads = kHeadThreads;
  using Shared = NoShared;
  using Part = LogitsOfLane<kHeadSegment>;

  int64_t rows;        // N
  int64_t row_blocks;  // N / kHeadRows, rounded up; blocks: that many a segment
  const float* logits;  // [N, W], `ld` apart
  int64_t ld;
  const T* bias;           // [V]; null: none
  int64_t begin, columns;  // of the tile within the vocabulary
  int64_t vocabulary;
  const int32_t* targets;  // [N]
  HeadSegments to;
  Fault fault;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    // A launch has fewer than 2^31 blocks; a 64-bit division would be a call.
    const uint32_t at = static_cast<uint32_t>(block.index());
    const uint32_t segment = at / static_cast<uint32_t>(row_blocks);
    const int64_t first_row =
        int64_t{at - segment * static_cast<uint32_t>(row_blocks)} * kHeadRows;
    const int64_t first = int64_t{segment} * kHeadSegment;
    typename Block::template PerThread<Part> part;
    typename Block::template PerThread<float> max, sum;
    block.EachUnsynced([&](int t) {
      max[t] = MinusInfinity();
      const int64_t n = first_row + t / kWarp;
      if (n >= rows) return;
      part[t].LoadFrom(logits + n * ld + first, t % kWarp, columns - first);
      part[t].AddBias(bias == nullptr ? nullptr : bias + begin + first,
                      t % kWarp, columns - first);
      CASTOR_UNROLL
      for (const auto& run : part[t].at) {
        CASTOR_UNROLL
        for (const float x : run) max[t] = fmaxf(max[t], x);
      }
    });
    block.Rejoin();
    block.WarpMax(max);
    block.EachUnsynced([&](int t) {
      sum[t] = 0.0f;
      if (first_row + t / kWarp >= rows) return;
      // A segment of only -inf adds nothing.
      const float top = max[t] == MinusInfinity() ? 0.0f : max[t];
      CASTOR_UNROLL
      for (const auto& run : part[t].at) {
        CASTOR_UNROLL
        for (const float x : run) sum[t] = Add(sum[t], expf(Sub(x, top)));
      }
    });
    block.Rejoin();
    block.WarpSum(sum);
    block.EachUnsynced([&](int t) {
      const int64_t n = first_row + t / kWarp;
      if (n >= rows || t % kWarp != 0) return;
      const int64_t place = ((begin + first) / kHeadSegment) * rows + n;
      to.max[place] = max[t];
      to.sum[place] = sum[t];
      const int32_t target = targets[n];
      const int64_t column = target - begin - first;
      if (column >= 0 && column < kHeadSegment && target < vocabulary) {
        to.target[n] = WithBias(logits[n * ld + first + column], bias, target);
      } else if (begin + first == 0 && target != kIgnoredTarget &&
                 (target < 0 || target >= vocabulary)) {
        fault.Report(target, n, vocabulary);
      }
    });
  }
};

// lse: a thread joins all segments of its row, in their order, in double.
struct HeadLogSumExpProgram {
  static constexpr int kThreads = 128;
  using Shared = NoShared;

  int64_t rows;      // N
  int64_t segments;  // of a row
  HeadSegments from;
  float* lse;  // [N]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    block.EachUnsynced([&](int t) {
      const int64_t n = block.index() * kThreads + t;
      if (n >= rows) return;
      float top = from.max[n];
      for (int64_t i = 1; i < segments; ++i) {
        top = fmaxf(top, from.max[i * rows + n]);
      }
      double total = 0;
      for (int64_t i = 0; i < segments; ++i) {
        const float max = from.max[i * rows + n];
        // inf - inf shows as a NaN.
        const float scale = max == MinusInfinity() ? 0.0f : expf(Sub(max, top));
        total += static_cast<double>(from.sum[i * rows + n]) * scale;
      }
      lse[n] = static_cast<float>(top + log(total));
    });
  }
};

// The summed loss, in one block: threads add strided rows, and one tree adds
// their sums.
struct HeadFinishProgram {
  static constexpr int kThreads = 1024;
  struct Shared {
    double sum[kThreads];
  };

  int64_t size;  // N
  int64_t vocabulary;
  const int32_t* targets;
  const float* target_logits;  // [N]
  const float* lse;            // [N]
  float* loss;                 // [1]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    block.Each([&](int t) {
      double sum = 0;
      for (int64_t n = t; n < size; n += kThreads) {
        const int32_t target = targets[n];
        if (target < 0 || target >= vocabulary) continue;
        sum += static_cast<double>(lse[n]) - target_logits[n];
      }
      shared.sum[t] = sum;
    });
    for (int half = kThreads / 2; half > 1; half /= 2) {
      block.Each([&](int t) {
        if (t < half) shared.sum[t] += shared.sum[t + half];
      });
    }
    block.EachUnsynced([&](int t) {
      if (t == 0) *loss = static_cast<float>(shared.sum[0] + shared.sum[1]);
    });
  }
};

// Counts the rows that have no greater logit than their target's, in one block:
// threads count strided rows, and one tree adds their counts.
struct HeadCorrectProgram {
  static constexpr int kThreads = 1024;
  struct Shared {
    int32_t count[kThreads];
  };

  int64_t rows;      // N
  int64_t segments;  // of a row
  int64_t vocabulary;
  const int32_t* targets;  // [N]
  HeadSegments from;
  int32_t* correct;  // [1]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    block.Each([&](int t) {
      int32_t count = 0;
      for (int64_t n = t; n < rows; n += kThreads) {
        const int32_t target = targets[n];
        if (target < 0 || target >= vocabulary) continue;
        float top = from.max[n];
        for (int64_t i = 1; i < segments; ++i) {
          top = fmaxf(top, from.max[i * rows + n]);
        }
        count += from.target[n] >= top ? 1 : 0;
      }
      shared.count[t] = count;
    });
    for (int half = kThreads / 2; half > 1; half /= 2) {
      block.Each([&](int t) {
        if (t < half) shared.count[t] += shared.count[t + half];
      });
    }
    block.EachUnsynced([&](int t) {
      if (t == 0) *correct = shared.count[0] + shared.count[1];
    });
  }
};

// Backward: replaces a tile's logits by their gradients, (softmax - onehot) *
// loss_grad, as T; a warp processes a row. With 16 bits, a row of W gradients
// takes the first half of its logits' place: the warp's lanes have read a
// round's columns before any of them writes, and writes lie below the logits
// still to be read.
template <class T>
struct HeadGradientProgram {
  static constexpr int kThreads = kHeadThreads;
  static constexpr int kRound = 1024;  // columns
  using Shared = NoShared;
  using Part = LogitsOfLane<kRound>;

  int64_t rows;   // N
  float* logits;  // [N, W], `ld` floats apart: a multiple of 8
  int64_t ld;
  const T* bias;  // [V]; null: none
  int64_t begin, columns, vocabulary;
  const int32_t* targets;
  const float* lse;
  float loss_grad;
  Fault fault;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    struct Row {
      float lse;
      // For the target's gradient, if the tile has its column.
      int64_t column;
      float shifted;
      bool ignored;
    };
    typename Block::template PerThread<Row> row;
    typename Block::template PerThread<Part> part;
    block.EachUnsynced([&](int t) {
      const int64_t n = block.index() * kHeadRows + t / kWarp;
      if (n >= rows) return;
      const int32_t target = targets[n];
      Row& r = row[t];
      r.ignored = target < 0 || target >= vocabulary;
      r.lse = lse[n];
      r.column = target - begin;
      if (r.ignored || r.column < 0 || r.column >= columns) r.column = -1;
      r.shifted =
          r.column < 0
              ? 0.0f
              : Sub(WithBias(logits[n * ld + r.column], bias, target), r.lse);
      if (t % kWarp == 0 && begin == 0 && r.ignored &&
          target != kIgnoredTarget) {
        fault.Report(target, n, vocabulary);
      }
    });
    for (int64_t from = 0; from < columns; from += kRound) {
      block.EachUnsynced([&](int t) {
        const int64_t n = block.index() * kHeadRows + t / kWarp;
        if (n >= rows) return;
        part[t].LoadFrom(logits + n * ld + from, t % kWarp, columns - from);
        part[t].AddBias(bias == nullptr ? nullptr : bias + begin + from,
                        t % kWarp, columns - from);
        CASTOR_UNROLL
        for (auto& run : part[t].at) {
          CASTOR_UNROLL
          for (float& x : run) {
            x = row[t].ignored ? 0.0f
                               : Mul(expf(Sub(x, row[t].lse)), loss_grad);
          }
        }
      });
      block.Rejoin();
      block.EachUnsynced([&](int t) {
        const int64_t n = block.index() * kHeadRows + t / kWarp;
        if (n >= rows) return;
        Put(part[t], t % kWarp, columns - from, Gradients(n) + from);
      });
    }
    // Computes p - 1 without cancellation for p near 1. The lane that wrote
    // there writes again.
    block.EachUnsynced([&](int t) {
      const int64_t n = block.index() * kHeadRows + t / kWarp;
      if (n >= rows || row[t].column < 0) return;
      if (row[t].column / kRun % kWarp != t % kWarp) return;
      Store(Mul(expm1f(row[t].shifted), loss_grad),
            Gradients(n) + row[t].column);
    });
  }

 private:
  CASTOR_HD T* Gradients(int64_t n) const {
    return reinterpret_cast<T*>(logits + n * ld);
  }
  CASTOR_HD static void Put(const Part& part, int lane, int64_t count, T* to) {
    CASTOR_UNROLL
    for (int r = 0; r < Part::kRunsOfLane; ++r) {
      const int column = Part::Column(lane, r);
      if (count >= kRound) {
        StoreRun(part.at[r], to + column);
        continue;
      }
      CASTOR_UNROLL
      for (int i = 0; i < kRun; ++i) {
        if (column + i < count) Store(part.at[r][i], to + column + i);
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_PROGRAM_H_
