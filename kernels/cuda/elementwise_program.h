// Programs of kernels/elementwise.h, in the order of operations of the host's
// (kernels/cpu/elementwise.cc).
#ifndef CASTOR_KERNELS_CUDA_ELEMENTWISE_PROGRAM_H_
#define CASTOR_KERNELS_CUDA_ELEMENTWISE_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

struct GeluOp {
  static constexpr float kA = -1.5957691216057308f;    // -2 sqrt(2 / pi)
  static constexpr float kB = -0.071354816272600248f;  // kA * 0.044715

  // x / (1 + e^a), which has no cancellation for negative x.
  CASTOR_HD float operator()(float x) const {
    const float a = Mul(x, Fma(Mul(x, x), kB, kA));
    return Div(x, Add(1.0f, expf(a)));
  }
};

struct GeluGradientOp {
  // s + x s (1 - s) (-da/dx), s = 1 / (1 + e^a), times dy.
  CASTOR_HD float operator()(float x, float dy) const {
    // Beyond 16 the derivative is 0 or 1 to within 1e-37: clamping keeps every
    // intermediate finite. A NaN stays.
    const float c = x > 16.0f ? 16.0f : x < -16.0f ? -16.0f : x;
    const float c2 = Mul(c, c);
    const float a = Mul(c, Fma(c2, GeluOp::kB, GeluOp::kA));
    const float e = expf(a > 87.0f ? 87.0f : a);
    const float s = Div(1.0f, Add(1.0f, e));
    const float slope = Fma(c2, -3.0f * GeluOp::kB, -GeluOp::kA);
    const float t = Mul(Mul(c, slope), Mul(e, s));
    return Mul(dy, Fma(t, s, s));
  }
};

struct CopyOp {
  CASTOR_HD float operator()(float x) const { return x; }
};

// y = op(x). y may be x where the types are equal.
template <class Op, class TX, class TY>
struct UnaryProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  const TX* x;
  TY* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    ForEachPlace(block, size, HasRuns(x) && HasRuns(y), [&](const auto& place) {
      auto values = place.LoadFrom(x);
      CASTOR_UNROLL
      for (float& v : values.at) v = Op()(v);
      place.StoreTo(y, values);
    });
  }
};

// y = x, bit by bit; x null: y = 0.
template <class T>
struct CopyProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  const T* x;
  T* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    ForEachElement(block, size,
                   [&](int64_t e) { y[e] = x != nullptr ? x[e] : T(); });
  }
};

// y [M, N] (+)= row [N], or 0 where row is null.
template <class T>
struct FillRowsProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t rows, columns, stride;
  const T* row;
  T* y;
  bool accumulate;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    ForEachElement(block, rows * columns, [&](int64_t e) {
      T* to = y + e / columns * stride + e % columns;
      const float v = row != nullptr ? Load(row + e % columns) : 0.0f;
      Store(accumulate ? Add(Load(to), v) : v, to);
    });
  }
};

struct AddOp {
  CASTOR_HD float operator()(float a, float b) const { return Add(a, b); }
};

// y = op(a, b). y may be a or b.
template <class Op, class T>
struct BinaryProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  const T *a, *b;
  T* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const bool runs = HasRuns(a) && HasRuns(b) && HasRuns(y);
    ForEachPlace(block, size, runs, [&](const auto& place) {
      auto values = place.LoadFrom(a);
      const auto others = place.LoadFrom(b);
      CASTOR_UNROLL
      for (int i = 0; i < place.kCount; ++i) {
        values.at[i] = Op()(values.at[i], others.at[i]);
      }
      place.StoreTo(y, values);
    });
  }
};

// y = dropout(x) (+ residual). A run's elements share a run of the generator.
template <class T>
struct DropoutProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  RandomKey key;
  uint32_t threshold;
  float scale;
  const T *x, *residual;  // residual may be null
  T* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const bool runs =
        HasRuns(x) && HasRuns(y) && (residual == nullptr || HasRuns(residual));
    ForEachPlace(block, size, runs, [&](const auto& place) {
      WordReader words(key);
      auto values = place.LoadFrom(x);
      CASTOR_UNROLL
      for (int i = 0; i < place.kCount; ++i) {
        const bool keep =
            words.At(static_cast<uint64_t>(place.Element(i))) >= threshold;
        values.at[i] = keep ? Mul(values.at[i], scale) : 0.0f;
      }
      if (residual != nullptr) {
        const auto others = place.LoadFrom(residual);
        CASTOR_UNROLL
        for (int i = 0; i < place.kCount; ++i) {
          values.at[i] = Add(values.at[i], others.at[i]);
        }
      }
      place.StoreTo(y, values);
    });
  }
};

// db [columns] (+)= the sum of dy's rows.
template <class T>
struct BiasGradientProgram {
  using Sums = ColumnSums<T, 1, 0, 1>;
  static constexpr int kThreads = Sums::kThreads;
  using Shared = typename Sums::Shared;

  Sums sums;  // of dy
  T* db;
  bool accumulate;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    sums.Run(
        block, shared,
        [](const float* x, const float*, float* sum) {
          sum[0] = Add(sum[0], x[0]);
        },
        [&](int64_t c, const float* total) {
          Store(accumulate ? Add(Load(db + c), total[0]) : total[0], db + c);
        });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_ELEMENTWISE_PROGRAM_H_
