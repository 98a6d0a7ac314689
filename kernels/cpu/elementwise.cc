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

struct CopyOp {
  HWY_INLINE VF32 operator()(VF32 x) const { return x; }
};

void GeluForwardF32(int64_t size, const float* x, float* y) {
  Map(GeluOp(), size, y, x);
}
void GeluForwardBf16(int64_t size, const BFloat16* x, BFloat16* y) {
  Map(GeluOp(), size, y, x);
}
void GeluBackwardF32(int64_t size, const float* x, const float* dy, float* dx) {
  Map(GeluGradientOp(), size, dx, x, dy);
}
void GeluBackwardBf16(int64_t size, const BFloat16* x, const BFloat16* dy,
                      BFloat16* dx) {
  Map(GeluGradientOp(), size, dx, x, dy);
}
void AddF32(int64_t size, const float* a, const float* b, float* y) {
  Map(AddOp(), size, y, a, b);
}
void AddBf16(int64_t size, const BFloat16* a, const BFloat16* b, BFloat16* y) {
  Map(AddOp(), size, y, a, b);
}
void CastToBf16(int64_t size, const float* x, BFloat16* y) {
  Map(CopyOp(), size, y, x);
}
void CastToF32(int64_t size, const BFloat16* x, float* y) {
  Map(CopyOp(), size, y, x);
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
void ApplyDropoutF32(int64_t size, const uint32_t* words, uint32_t threshold,
                     float scale, const float* x, const float* residual,
                     float* y) {
  ApplyDropout(size, words, threshold, scale, x, residual, y);
}
void ApplyDropoutBf16(int64_t size, const uint32_t* words, uint32_t threshold,
                      float scale, const BFloat16* x, const BFloat16* residual,
                      BFloat16* y) {
  ApplyDropout(size, words, threshold, scale, x, residual, y);
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
void SumColumnsF32(int64_t rows, int64_t stride, int64_t columns,
                   const float* dy, float* db, bool accumulate) {
  SumColumns(rows, stride, columns, dy, db, accumulate);
}
void SumColumnsBf16(int64_t rows, int64_t stride, int64_t columns,
                    const BFloat16* dy, BFloat16* db, bool accumulate) {
  SumColumns(rows, stride, columns, dy, db, accumulate);
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(GeluForwardF32);
HWY_EXPORT(GeluForwardBf16);
HWY_EXPORT(GeluBackwardF32);
HWY_EXPORT(GeluBackwardBf16);
HWY_EXPORT(AddF32);
HWY_EXPORT(AddBf16);
HWY_EXPORT(CastToBf16);
HWY_EXPORT(CastToF32);
HWY_EXPORT(ApplyDropoutF32);
HWY_EXPORT(ApplyDropoutBf16);
HWY_EXPORT(SumColumnsF32);
HWY_EXPORT(SumColumnsBf16);
}  // namespace cpu

namespace {

using cpu::kElementTile;
using cpu::ParallelTiles;

// A pointer to elements, as either type.
template <class T>
const T* In(const void* p) {
  return static_cast<const T*>(p);
}
template <class T>
T* Out(void* p) {
  return static_cast<T*>(p);
}

}  // namespace

absl::Status GeluForward(const ExecContext& context, DType dtype, int64_t size,
                         const void* x, void* y) {
  if (context.gpu != nullptr) {
    return context.gpu->kernels->gelu_forward(context, dtype, size, x, y);
  }
  if (absl::Status s = CheckSize("GeluForward", size); !s.ok()) return s;
  ParallelTiles(context, size, kElementTile, [&](int64_t begin, int64_t end) {
    if (dtype == DType::kFloat32) {
      HWY_DYNAMIC_DISPATCH(cpu::GeluForwardF32)
      (end - begin, In<float>(x) + begin, Out<float>(y) + begin);
    } else {
      HWY_DYNAMIC_DISPATCH(cpu::GeluForwardBf16)
      (end - begin, In<BFloat16>(x) + begin, Out<BFloat16>(y) + begin);
    }
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
    if (dtype == DType::kFloat32) {
      HWY_DYNAMIC_DISPATCH(cpu::GeluBackwardF32)
      (end - begin, In<float>(x) + begin, In<float>(dy) + begin,
       Out<float>(dx) + begin);
    } else {
      HWY_DYNAMIC_DISPATCH(cpu::GeluBackwardBf16)
      (end - begin, In<BFloat16>(x) + begin, In<BFloat16>(dy) + begin,
       Out<BFloat16>(dx) + begin);
    }
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
    if (dtype == DType::kFloat32) {
      HWY_DYNAMIC_DISPATCH(cpu::AddF32)
      (end - begin, In<float>(a) + begin, In<float>(b) + begin,
       Out<float>(y) + begin);
    } else {
      HWY_DYNAMIC_DISPATCH(cpu::AddBf16)
      (end - begin, In<BFloat16>(a) + begin, In<BFloat16>(b) + begin,
       Out<BFloat16>(y) + begin);
    }
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
      if (dtype == DType::kFloat32) {
        HWY_DYNAMIC_DISPATCH(cpu::ApplyDropoutF32)
        (count, words, threshold, scale, In<float>(x) + i,
         residual == nullptr ? nullptr : In<float>(residual) + i,
         Out<float>(y) + i);
      } else {
        HWY_DYNAMIC_DISPATCH(cpu::ApplyDropoutBf16)
        (count, words, threshold, scale, In<BFloat16>(x) + i,
         residual == nullptr ? nullptr : In<BFloat16>(residual) + i,
         Out<BFloat16>(y) + i);
      }
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
                    if (dtype == DType::kFloat32) {
                      HWY_DYNAMIC_DISPATCH(cpu::SumColumnsF32)
                      (rows, channels, columns, In<float>(dy) + c,
                       Out<float>(db) + c, accumulate);
                    } else {
                      HWY_DYNAMIC_DISPATCH(cpu::SumColumnsBf16)
                      (rows, channels, columns, In<BFloat16>(dy) + c,
                       Out<BFloat16>(db) + c, accumulate);
                    }
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
    if (from == to) {
      if (x == y || count == 0) return;
      const int64_t element = SizeOf(to);
      std::memcpy(Out<char>(y) + begin * element, In<char>(x) + begin * element,
                  count * element);
    } else if (to == DType::kBFloat16) {
      HWY_DYNAMIC_DISPATCH(cpu::CastToBf16)
      (count, In<float>(x) + begin, Out<BFloat16>(y) + begin);
    } else {
      HWY_DYNAMIC_DISPATCH(cpu::CastToF32)
      (count, In<BFloat16>(x) + begin, Out<float>(y) + begin);
    }
  });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
