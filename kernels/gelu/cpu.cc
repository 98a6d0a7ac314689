#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/gelu/gelu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gelu/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
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

// Elements [begin, begin + size) of arrays of `dtype`.
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

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(GeluForwardImpl);
HWY_EXPORT(GeluBackwardImpl);
}  // namespace cpu

absl::Status GeluForwardArgs::RunOnCpu(const ExecContext& context) const {
  cpu::ParallelTiles(context, size, cpu::kElementTile,
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(GeluForwardImpl)
                       (dtype, begin, end - begin, x, y);
                     });
  return absl::OkStatus();
}

absl::Status GeluBackwardArgs::RunOnCpu(const ExecContext& context) const {
  cpu::ParallelTiles(context, size, cpu::kElementTile,
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(GeluBackwardImpl)
                       (dtype, begin, end - begin, x, dy, dx);
                     });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
