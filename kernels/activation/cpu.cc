#include "kernels/activation/activation.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

HWY_INLINE VF32 Const(float value) { return hn::Set(F32(), value); }

// e^a for a up to `most`, where Exp's range ends or the result's.
HWY_INLINE VF32 ExpUpTo(VF32 a, float most) {
  return hn::Exp(F32(), hn::Min(a, Const(most)));
}
HWY_INLINE VF32 Clamp(VF32 x, float to) {
  return hn::Max(hn::Min(x, Const(to)), Const(-to));
}

// Each function has its Value and its Slope, the derivative. A Value keeps
// NaNs, a Slope need not.
struct Relu {
  HWY_INLINE VF32 Value(VF32 x) const {
    return hn::IfThenZeroElse(hn::Le(x, Const(0.0f)), x);
  }
  HWY_INLINE VF32 Slope(VF32 x) const {
    return hn::IfThenZeroElse(hn::Le(x, Const(0.0f)), Const(1.0f));
  }
};

// x s(a), s = 1 / (1 + e^a): no cancellation for negative x. The derivative is
// s + x s (1 - s) (-da/dx).
HWY_INLINE VF32 SigmoidSlope(VF32 x, VF32 a, VF32 minus_da) {
  const VF32 one = Const(1.0f);
  const VF32 e = ExpUpTo(a, 87.0f);
  const VF32 s = hn::Div(one, hn::Add(one, e));
  const VF32 t = hn::Mul(hn::Mul(x, minus_da), hn::Mul(e, s));
  return Fma(t, s, s);
}

// 0.5 (1 + tanh(u)) = 1 / (1 + e^(-2u)). -2u = x (kA + kB x^2).
struct GeluTanh {
  static constexpr float kA = -1.5957691216057308f;    // -2 sqrt(2 / pi)
  static constexpr float kB = -0.071354816272600248f;  // kA * 0.044715

  HWY_INLINE VF32 Value(VF32 x) const {
    const VF32 a = hn::Mul(x, Fma(hn::Mul(x, x), Const(kB), Const(kA)));
    // At 104, where Exp's range ends, e^a is already infinite.
    return hn::Div(x, hn::Add(Const(1.0f), ExpUpTo(a, 104.0f)));
  }
  HWY_INLINE VF32 Slope(VF32 x) const {
    // Beyond 16 the derivative is 0 or 1 to within 1e-37: clamping keeps every
    // intermediate finite.
    const VF32 c = Clamp(x, 16.0f);
    const VF32 c2 = hn::Mul(c, c);
    const VF32 a = hn::Mul(c, Fma(c2, Const(kB), Const(kA)));
    return SigmoidSlope(c, a, Fma(c2, Const(-3.0f * kB), Const(-kA)));
  }
};

struct Silu {
  HWY_INLINE VF32 Value(VF32 x) const {
    const VF32 e = ExpUpTo(hn::Neg(x), 104.0f);
    return hn::Div(x, hn::Add(Const(1.0f), e));
  }
  HWY_INLINE VF32 Slope(VF32 x) const {
    // As above: beyond 87 the derivative is 0 or 1 to within 1e-35.
    const VF32 c = Clamp(x, 87.0f);
    return SigmoidSlope(c, hn::Neg(c), Const(1.0f));
  }
};

struct Tanh {
  HWY_INLINE VF32 Value(VF32 x) const {
    // Beyond 10 tanh is 1 to within fp32's precision.
    const VF32 y = hn::Tanh(F32(), Clamp(x, 10.0f));
    return hn::IfThenElse(hn::Eq(x, x), y, x);
  }
  // 4 e / (1 + e)^2, e = e^(-2 |x|): no cancellation where tanh is nearly 1.
  HWY_INLINE VF32 Slope(VF32 x) const {
    const VF32 c = Clamp(x, 44.0f);
    const VF32 e = hn::Exp(F32(), hn::Mul(hn::Abs(c), Const(-2.0f)));
    const VF32 sum = hn::Add(Const(1.0f), e);
    return hn::Div(hn::Mul(Const(4.0f), e), hn::Mul(sum, sum));
  }
};

struct Gelu {
  // Beyond this e^(-x^2 / 2) is 0 in fp32.
  static constexpr float kEnd = 14.5f;

  HWY_INLINE VF32 Value(VF32 x) const {
    VF32 density;
    return hn::Mul(x, Normal(x, Clamp(x, kEnd), density));
  }
  HWY_INLINE VF32 Slope(VF32 x) const {
    const VF32 c = Clamp(x, kEnd);
    VF32 density;
    const VF32 phi = Normal(x, c, density);
    constexpr float kScale = 0.3989422804014327f;  // 1 / sqrt(2 pi)
    return Fma(hn::Mul(c, Const(kScale)), density, phi);
  }

 private:
  // Phi(x), and density = e^(-x^2 / 2), for x clamped to c. With t = |c|,
  // Phi(-t) = e^(-t^2 / 2) R(t), in which R(t) = erfcx(t / sqrt(2)) / 2 is
  // smooth: a polynomial in q = (t - 3) / (t + 3) is within 1e-8 of it
  // (fit_normal_tail.py).
  HWY_INLINE VF32 Normal(VF32 x, VF32 c, VF32& density) const {
    constexpr float kTail[] = {0.12151394751376765f,    -0.20640262040881835f,
                               0.12322504121280162f,    -0.04621326361530924f,
                               0.006131942370664763f,   0.0029043872262237273f,
                               -0.0009832884560109691f, -0.0003390123538795658f,
                               0.00011501384962953241f, 5.316148239044663e-05f};
    const VF32 t = hn::Abs(c);
    const VF32 three = Const(3.0f);
    const VF32 q = hn::Div(hn::Sub(t, three), hn::Add(t, three));
    VF32 r = Const(kTail[9]);
    for (int i = 8; i >= 0; --i) r = Fma(r, q, Const(kTail[i]));
    density = hn::Exp(F32(), hn::Mul(hn::Mul(c, c), Const(-0.5f)));
    const VF32 tail = hn::Mul(density, r);
    return hn::IfThenElse(hn::Lt(x, Const(0.0f)), tail,
                          hn::Sub(Const(1.0f), tail));
  }
};

template <class Fn>
HWY_INLINE void WithActivation(Activation kind, const Fn& fn) {
  switch (kind) {
    case Activation::kRelu:
      return fn(Relu());
    case Activation::kGelu:
      return fn(Gelu());
    case Activation::kGeluTanh:
      return fn(GeluTanh());
    case Activation::kSilu:
      return fn(Silu());
    case Activation::kTanh:
      return fn(Tanh());
  }
}

template <class Act, class T>
HWY_INLINE void Forward(const Act& act, int64_t size, const T* x, const T* up,
                        T* y) {
  if (up == nullptr) {
    return Map([&](VF32 v) HWY_ATTR { return act.Value(v); }, size, y, x);
  }
  Map([&](VF32 v, VF32 u) HWY_ATTR { return hn::Mul(act.Value(v), u); }, size,
      y, x, up);
}

// `gradient` is that of the activation's value.
template <class Act>
HWY_INLINE VF32 InputGradient(const Act& act, VF32 x, VF32 gradient) {
  const VF32 dx = hn::Mul(gradient, act.Slope(x));
  return hn::IfThenElse(hn::Eq(x, x), dx, x);
}

template <class Act, class T>
HWY_INLINE void Backward(const Act& act, int64_t size, const T* x, const T* up,
                         const T* dy, T* dx, T* dup) {
  if (up == nullptr) {
    return Map([&](VF32 v, VF32 g)
                   HWY_ATTR { return InputGradient(act, v, g); },
               size, dx, x, dy);
  }
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t left = size - i;
    const VF32 v = LoadPart(x + i, left);
    const VF32 u = LoadPart(up + i, left);
    const VF32 g = LoadPart(dy + i, left);
    StorePart(InputGradient(act, v, hn::Mul(g, u)), dx + i, left);
    StorePart(hn::Mul(g, act.Value(v)), dup + i, left);
  }
}

// Elements [begin, begin + size) of arrays of `dtype`.
void ActivationForwardImpl(Activation kind, DType dtype, int64_t begin,
                           int64_t size, const void* x, const void* up,
                           void* y) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    WithActivation(kind, [&](const auto& act) HWY_ATTR {
      Forward(act, size, At<T>(x, begin), At<T>(up, begin), At<T>(y, begin));
    });
  });
}
void ActivationBackwardImpl(Activation kind, DType dtype, int64_t begin,
                            int64_t size, const void* x, const void* up,
                            const void* dy, void* dx, void* dup) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    WithActivation(kind, [&](const auto& act) HWY_ATTR {
      Backward(act, size, At<T>(x, begin), At<T>(up, begin), At<T>(dy, begin),
               At<T>(dx, begin), At<T>(dup, begin));
    });
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(ActivationForwardImpl);
HWY_EXPORT(ActivationBackwardImpl);
}  // namespace cpu

absl::Status ActivationForwardArgs::RunOnCpu(const ExecContext& context) const {
  cpu::ParallelTiles(context, size, cpu::kElementTile,
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(ActivationForwardImpl)
                       (kind, dtype, begin, end - begin, x, up, y);
                     });
  return absl::OkStatus();
}

absl::Status ActivationBackwardArgs::RunOnCpu(
    const ExecContext& context) const {
  cpu::ParallelTiles(context, size, cpu::kElementTile,
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(ActivationBackwardImpl)
                       (kind, dtype, begin, end - begin, x, up, dy, dx, dup);
                     });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
