#include "kernels/cpu/row_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_ops.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// A sum may see this behind the end of a row: exp(-inf) = 0.
inline constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Highway's Exp gives 0 for a NaN; a diverged run must show.
HWY_INLINE VF32 ExpOf(VF32 x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(F32(), x));
}

// The sum of a row whose vector at element i, with `count` lanes in the row, is
// added by term(i, count, sum).
template <class Term>
HWY_INLINE float SumOf(int64_t size, const Term& term) {
  return SumRow<1>(size, [&](int64_t i, int64_t count, VF32* sum)
                             HWY_ATTR { sum[0] = term(i, count, sum[0]); })[0];
}

float MaxOfImpl(const float* x, int64_t size) {
  VF32 max0 = hn::Set(F32(), kNothing);
  VF32 max1 = max0;
  int64_t i = 0;
  for (; i + 2 * kLanes <= size; i += 2 * kLanes) {
    max0 = hn::Max(max0, Load(x + i));
    max1 = hn::Max(max1, Load(x + i + kLanes));
  }
  for (; i < size; i += kLanes) {
    max0 = hn::Max(max0, LoadPart(x + i, size - i, kNothing));
  }
  return hn::GetLane(hn::MaxOfLanes(F32(), hn::Max(max0, max1)));
}

float SumExpImpl(const float* x, int64_t size, float shift) {
  const VF32 by = hn::Set(F32(), shift);
  return SumOf(size, [&](int64_t i, int64_t count, VF32 sum) HWY_ATTR {
    return hn::Add(sum, ExpOf(hn::Sub(LoadPart(x + i, count, kNothing), by)));
  });
}

float SoftmaxImpl(float* x, int64_t size) {
  const float max = MaxOfImpl(x, size);
  const VF32 by = hn::Set(F32(), max);
  const float total =
      SumOf(size, [&](int64_t i, int64_t count, VF32 sum) HWY_ATTR {
        const VF32 e = ExpOf(hn::Sub(LoadPart(x + i, count, kNothing), by));
        StorePart(e, x + i, count);
        return hn::Add(sum, e);
      });
  const VF32 inverse = hn::Set(F32(), 1.0f / total);
  Map([&](VF32 v) HWY_ATTR { return hn::Mul(v, inverse); }, size, x, x);
  return max + std::log(total);
}

void ExpScaledImpl(float* x, int64_t size, float lse, float scale) {
  const VF32 by = hn::Set(F32(), lse);
  const VF32 times = hn::Set(F32(), scale);
  Map([&](VF32 v) HWY_ATTR { return hn::Mul(ExpOf(hn::Sub(v, by)), times); },
      size, x, x);
}

float DotImpl(const float* x, const float* y, int64_t size) {
  return SumOf(size, [&](int64_t i, int64_t count, VF32 sum) HWY_ATTR {
    return Fma(LoadPart(x + i, count), LoadPart(y + i, count), sum);
  });
}

void MultiplyIntoImpl(const float* y, int64_t size, float* x) {
  Map([](VF32 a, VF32 b) HWY_ATTR { return hn::Mul(a, b); }, size, x, x, y);
}

void AttentionGradientImpl(float* s, float* dp, int64_t size, float lse,
                           float delta, float scale, const float* factors) {
  const VF32 by = hn::Set(F32(), lse);
  const VF32 minus = hn::Set(F32(), delta);
  const VF32 times = hn::Set(F32(), scale);
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t count = size - i;
    const VF32 p = ExpOf(hn::Sub(LoadPart(s + i, count), by));
    VF32 dropped = p;
    VF32 d = LoadPart(dp + i, count);
    if (factors != nullptr) {
      const VF32 f = LoadPart(factors + i, count);
      dropped = hn::Mul(p, f);
      d = hn::Mul(d, f);
    }
    StorePart(dropped, s + i, count);
    StorePart(hn::Mul(hn::Mul(p, hn::Sub(d, minus)), times), dp + i, count);
  }
}

void SoftCapImpl(float* x, int64_t size, float cap, float* slopes) {
  const VF32 by = hn::Set(F32(), cap);
  const VF32 inverse = hn::Set(F32(), 1.0f / cap);
  const VF32 one = hn::Set(F32(), 1.0f);
  for (int64_t i = 0; i < size; i += kLanes) {
    const VF32 u = hn::Mul(LoadPart(x + i, size - i), inverse);
    // Highway's Tanh gives 1 for a NaN.
    const VF32 t = hn::IfThenElse(hn::IsNaN(u), u, hn::Tanh(F32(), u));
    StorePart(hn::Mul(t, by), x + i, size - i);
    if (slopes == nullptr) continue;
    StorePart(Fma(hn::Neg(t), t, one), slopes + i, size - i);
  }
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels::cpu {

HWY_EXPORT(MaxOfImpl);
HWY_EXPORT(SumExpImpl);
HWY_EXPORT(SoftmaxImpl);
HWY_EXPORT(ExpScaledImpl);
HWY_EXPORT(DotImpl);
HWY_EXPORT(MultiplyIntoImpl);
HWY_EXPORT(AttentionGradientImpl);
HWY_EXPORT(SoftCapImpl);

float MaxOf(const float* x, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(MaxOfImpl)(x, size);
}

float SumExp(const float* x, int64_t size, float shift) {
  return HWY_DYNAMIC_DISPATCH(SumExpImpl)(x, size, shift);
}

float Softmax(float* x, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxImpl)(x, size);
}

void ExpScaled(float* x, int64_t size, float lse, float scale) {
  HWY_DYNAMIC_DISPATCH(ExpScaledImpl)(x, size, lse, scale);
}

float Dot(const float* x, const float* y, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(DotImpl)(x, y, size);
}

void MultiplyInto(const float* y, int64_t size, float* x) {
  HWY_DYNAMIC_DISPATCH(MultiplyIntoImpl)(y, size, x);
}

void AttentionGradient(float* s, float* dp, int64_t size, float lse,
                       float delta, float scale, const float* factors) {
  HWY_DYNAMIC_DISPATCH(AttentionGradientImpl)
  (s, dp, size, lse, delta, scale, factors);
}

void SoftCap(float* x, int64_t size, float cap, float* slopes) {
  HWY_DYNAMIC_DISPATCH(SoftCapImpl)(x, size, cap, slopes);
}

}  // namespace castor::kernels::cpu
#endif  // HWY_ONCE
