#include "kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/checks.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/gpu_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// 0.5 (1 + tanh(u)) = 1 / (1 + e^(-2u)), which has no cancellation for
// negative u. -2u = x (kA + kB x^2).
inline constexpr float kA = -1.5957691216057308f;    // -2 sqrt(2 / pi)
inline constexpr float kB = -0.071354816272600248f;  // kA * 0.044715

struct GeluOp {
  HWY_INLINE VF32 operator()(VF32 x) const {
    const F32 d;
    const VF32 a =
        hn::Mul(x, Fma(hn::Mul(x, x), hn::Set(d, kB), hn::Set(d, kA)));
    // At 104, where Exp's range ends, e^a is already infinite.
    const VF32 e = hn::Exp(d, hn::Min(a, hn::Set(d, 104.0f)));
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
  }
};

struct GeluGradientOp {
  // s + x s (1 - s) (-da/dx), s = 1 / (1 + e^a).
  HWY_INLINE VF32 operator()(VF32 x, VF32 dy) const {
    const F32 d;
    const VF32 one = hn::Set(d, 1.0f);
    // Beyond 16 the derivative is 0 or 1 to within 1e-37: clamping keeps every
    // intermediate finite.
    const VF32 c = hn::Max(hn::Min(x, hn::Set(d, 16.0f)), hn::Set(d, -16.0f));
    const VF32 c2 = hn::Mul(c, c);
    const VF32 a = hn::Mul(c, Fma(c2, hn::Set(d, kB), hn::Set(d, kA)));
    const VF32 e = hn::Exp(d, hn::Min(a, hn::Set(d, 87.0f)));
    const VF32 s = hn::Div(one, hn::Add(one, e));
    const VF32 slope = Fma(c2, hn::Set(d, -3.0f * kB), hn::Set(d, -kA));
    const VF32 t = hn::Mul(hn::Mul(c, slope), hn::Mul(e, s));
    const VF32 result = hn::Mul(dy, Fma(t, s, s));
    // Min and Max may lose a NaN.
    return hn::IfThenElse(hn::Eq(x, x), result, x);
  }
};

struct AddOp {
  HWY_INLINE VF32 operator()(VF32 a, VF32 b) const { return hn::Add(a, b); }
};

// The loops over elements [begin, begin + size) of arrays of `dtype`.
void GeluForwardImpl(DType dtype, int64_t begin, int64_t size, const void* x,
                     void* y) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    Map(GeluOp(), size, At<T>(y, begin), At<T>(x, begin));
  });
}
void GeluBackwardImpl(DType dtype, int64_t begin, int64_t size, const void* x,
                      const void* dy, void* dx) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    Map(GeluGradientOp(), size, At<T>(dx, begin), At<T>(x, begin),
        At<T>(dy, begin));
  });
}
void AddImpl(DType dtype, int64_t begin, int64_t size, const void* a,
             const void* b, void* y) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    Map(AddOp(), size, At<T>(y, begin), At<T>(a, begin), At<T>(b, begin));
  });
}
void CastImpl(int64_t begin, int64_t size, DType from, const void* x, DType to,
              void* y) {
  WithType(from, [&]<class X>(X) HWY_ATTR {
    WithType(to, [&]<class Y>(Y) HWY_ATTR {
      Map(CopyOp(), size, At<Y>(y, begin), At<X>(x, begin));
    });
  });
}

// y[i] = (words[i] >= threshold ? x[i] * scale : 0) (+ residual[i]).
template <class T>
HWY_INLINE void ApplyDropout(int64_t size, const uint32_t* words,
                             uint32_t threshold, float scale, const T* x,
                             const T* residual, T* y) {
  const F32 d;
  const hn::RebindToUnsigned<F32> d32;
  const auto limit = hn::Set(d32, threshold);
  const VF32 factor = hn::Set(d, scale);
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t count = size - i;
    const auto drop =
        hn::RebindMask(d, hn::Gt(limit, hn::LoadU(d32, words + i)));
    VF32 v = hn::IfThenZeroElse(drop, hn::Mul(LoadPart(x + i, count), factor));
    if (residual != nullptr) v = hn::Add(v, LoadPart(residual + i, count));
    StorePart(v, y + i, count);
  }
}
void ApplyDropoutImpl(DType dtype, int64_t begin, int64_t size,
                      const uint32_t* words, uint32_t threshold, float scale,
                      const void* x, const void* residual, void* y) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    ApplyDropout(size, words, threshold, scale, At<T>(x, begin),
                 At<T>(residual, begin), At<T>(y, begin));
  });
}

// db[c] (+)= sum over rows of dy[n, c] for up to kColumnTile columns. Rows are
// summed in tiles of kSumRows, and the tiles' sums in order.
template <class T>
HWY_INLINE void SumColumns(int64_t rows, int64_t stride, int64_t columns,
                           const T* dy, T* db, bool accumulate) {
  constexpr int64_t kVectors = kColumnTile / kLanes;
  const F32 d;
  VF32 total[kVectors];
  for (VF32& v : total) v = hn::Zero(d);
  for (int64_t begin = 0; begin < rows; begin += kSumRows) {
    VF32 sum[kVectors];
    for (VF32& v : sum) v = hn::Zero(d);
    const int64_t end = HWY_MIN(rows, begin + kSumRows);
    for (int64_t n = begin; n < end; ++n) {
      const T* row = dy + n * stride;
      if (columns == kColumnTile) {
        for (int64_t v = 0; v < kVectors; ++v) {
          sum[v] = hn::Add(sum[v], Load(row + v * kLanes));
        }
      } else {
        for (int64_t v = 0; v * kLanes < columns; ++v) {
          sum[v] =
              hn::Add(sum[v], LoadPart(row + v * kLanes, columns - v * kLanes));
        }
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) total[v] = hn::Add(total[v], sum[v]);
  }
  for (int64_t v = 0; v * kLanes < columns; ++v) {
    const int64_t count = columns - v * kLanes;
    T* out = db + v * kLanes;
    if (accumulate) total[v] = hn::Add(LoadPart(out, count), total[v]);
    StorePart(total[v], out, count);
  }
}
// From column `begin` on.
void SumColumnsImpl(DType dtype, int64_t begin, int64_t rows, int64_t stride,
                    int64_t columns, const void* dy, void* db,
                    bool accumulate) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    SumColumns(rows, stride, columns, At<T>(dy, begin), At<T>(db, begin),
               accumulate);
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(GeluForwardImpl);
HWY_EXPORT(GeluBackwardImpl);
HWY_EXPORT(AddImpl);
HWY_EXPORT(CastImpl);
HWY_EXPORT(ApplyDropoutImpl);
HWY_EXPORT(SumColumnsImpl);
}  // namespace cpu

namespace {

using cpu::kElementTile;
using cpu::ParallelTiles;

}  // namespace

absl::Status GeluForward(const ExecContext& context, DType dtype, int64_t size,
                         const void* x, void* y) {
  if (context.gpu != nullptr) {
    return context.gpu->kernels->gelu_forward(context, dtype, size, x, y);
  }
  if (absl::Status s = CheckSize("GeluForward", size); !s.ok()) return s;
  ParallelTiles(context, size, kElementTile, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::GeluForwardImpl)(dtype, begin, end - begin, x, y);
  });
  return absl::OkStatus();
}

absl::Status GeluBackward(const ExecContext& context, DType dtype, int64_t size,
                          const void* x, const void* dy, void* dx) {
  if (context.gpu != nullptr) {
    return context.gpu->kernels->gelu_backward(context, dtype, size, x, dy, dx);
  }
  if (absl::Status s = CheckSize("GeluBackward", size); !s.ok()) return s;
  ParallelTiles(context, size, kElementTile, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::GeluBackwardImpl)
    (dtype, begin, end - begin, x, dy, dx);
  });
  return absl::OkStatus();
}

absl::Status Add(const ExecContext& context, DType dtype, int64_t size,
                 const void* a, const void* b, void* y) {
  if (context.gpu != nullptr) {
    return context.gpu->kernels->add(context, dtype, size, a, b, y);
  }
  if (absl::Status s = CheckSize("Add", size); !s.ok()) return s;
  ParallelTiles(context, size, kElementTile, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cpu::AddImpl)(dtype, begin, end - begin, a, b, y);
  });
  return absl::OkStatus();
}

uint32_t DropoutThreshold(float p) {
  // Below 2^32: the largest float below 1 is 1 - 2^-24.
  return static_cast<uint32_t>(
      std::llround(static_cast<double>(p) * 4294967296.0));
}

absl::Status Dropout(const ExecContext& context, DType dtype, int64_t size,
                     float p, RandomKey key, const void* x,
                     const void* residual, void* y) {
  if (context.gpu != nullptr) {
    return context.gpu->kernels->dropout(context, dtype, size, p, key, x,
                                         residual, y);
  }
  if (absl::Status s = CheckDropout(size, p); !s.ok()) return s;
  if (p == 0.0f) {
    return residual == nullptr ? Cast(context, size, dtype, x, dtype, y)
                               : Add(context, dtype, size, x, residual, y);
  }
  const uint32_t threshold = DropoutThreshold(p);
  const float scale = cpu::DropoutScale(p);
  ParallelTiles(context, size, kElementTile, [&](int64_t begin, int64_t end) {
    // 4 KiB of words at a time, which stay in the first-level cache; the slack
    // is for a last, partial vector.
    constexpr int64_t kBlock = 1024;
    uint32_t words[kBlock + 16] = {};
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t count = std::min(kBlock, end - i);
      cpu::RandomWords(key, static_cast<uint64_t>(i), count, words);
      HWY_DYNAMIC_DISPATCH(cpu::ApplyDropoutImpl)
      (dtype, i, count, words, threshold, scale, x, residual, y);
    }
  });
  return absl::OkStatus();
}

absl::Status BiasGradient(const ExecContext& context, DType dtype, int64_t rows,
                          int64_t channels, const void* dy, void* db,
                          bool accumulate) {
  if (context.gpu != nullptr) {
    return context.gpu->kernels->bias_gradient(context, dtype, rows, channels,
                                               dy, db, accumulate);
  }
  if (absl::Status s = CheckSize("BiasGradient", std::min(rows, channels));
      !s.ok()) {
    return s;
  }
  ParallelTiles(context, channels, cpu::ColumnsPerTask(rows),
                [&](int64_t begin, int64_t end) {
                  for (int64_t c = begin; c < end; c += cpu::kColumnTile) {
                    const int64_t columns = std::min(cpu::kColumnTile, end - c);
                    HWY_DYNAMIC_DISPATCH(cpu::SumColumnsImpl)
                    (dtype, c, rows, channels, columns, dy, db, accumulate);
                  }
                });
  return absl::OkStatus();
}

absl::Status Cast(const ExecContext& context, int64_t size, DType from,
                  const void* x, DType to, void* y) {
  if (context.gpu != nullptr) {
    return context.gpu->kernels->cast(context, size, from, x, to, y);
  }
  if (absl::Status s = CheckSize("Cast", size); !s.ok()) return s;
  ParallelTiles(context, size, kElementTile, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    if (from != to) {
      HWY_DYNAMIC_DISPATCH(cpu::CastImpl)(begin, count, from, x, to, y);
    } else if (x != y && count > 0) {
      const int64_t element = SizeOf(to);
      std::memcpy(static_cast<char*>(y) + begin * element,
                  static_cast<const char*>(x) + begin * element,
                  count * element);
    }
  });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
