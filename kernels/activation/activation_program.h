// Activation functions and their gradients, in the host's order of operations
// (cpu.cc). Instead of a division they multiply by a reciprocal within one unit
// in the last place: a value's relative error grows by at most two units, and
// the branches of an exact division are saved.
#ifndef CASTOR_KERNELS_ACTIVATION_ACTIVATION_PROGRAM_H_
#define CASTOR_KERNELS_ACTIVATION_ACTIVATION_PROGRAM_H_

#include <cstdint>

#include "kernels/activation/kind.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// 1 / x within one unit in the last place; results below 2^-126 may be zero.
CASTOR_HD float Reciprocal(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

// A NaN stays.
CASTOR_HD float Clamp(float x, float to) {
  return x > to ? to : x < -to ? -to : x;
}

struct Relu {
  CASTOR_HD float Value(float x) const { return x <= 0.0f ? 0.0f : x; }
  // A NaN gives a NaN.
  CASTOR_HD float Slope(float x) const {
    return x <= 0.0f ? 0.0f : x > 0.0f ? 1.0f : x;
  }
};

// s + x s (1 - s) (-da/dx), s = 1 / (1 + e^a).
CASTOR_HD float SigmoidSlope(float x, float a, float minus_da) {
  const float e = expf(a > 87.0f ? 87.0f : a);
  const float s = Reciprocal(Add(1.0f, e));
  const float t = Mul(Mul(x, minus_da), Mul(e, s));
  return Fma(t, s, s);
}

struct GeluTanh {
  static constexpr float kA = -1.5957691216057308f;    // -2 sqrt(2 / pi)
  static constexpr float kB = -0.071354816272600248f;  // kA * 0.044715

  // x / (1 + e^a), which has no cancellation for negative x.
  CASTOR_HD float Value(float x) const {
    const float a = Mul(x, Fma(Mul(x, x), kB, kA));
    return Mul(x, Reciprocal(Add(1.0f, expf(a))));
  }
  CASTOR_HD float Slope(float x) const {
    // Beyond 16 the derivative is 0 or 1 to within 1e-37: clamping keeps every
    // intermediate finite.
    const float c = Clamp(x, 16.0f);
    const float c2 = Mul(c, c);
    const float a = Mul(c, Fma(c2, kB, kA));
    return SigmoidSlope(c, a, Fma(c2, -3.0f * kB, -kA));
  }
};

struct Silu {
  CASTOR_HD float Value(float x) const {
    return Mul(x, Reciprocal(Add(1.0f, expf(-x))));
  }
  CASTOR_HD float Slope(float x) const {
    const float c = Clamp(x, 87.0f);
    return SigmoidSlope(c, -c, 1.0f);
  }
};

struct Tanh {
  CASTOR_HD float Value(float x) const { return tanhf(x); }
  // 4 e / (1 + e)^2, e = e^(-2 |x|): no cancellation where tanh is nearly 1.
  CASTOR_HD float Slope(float x) const {
    const float e = expf(Mul(fabsf(x), -2.0f));
    const float r = Reciprocal(Add(1.0f, e));
    return Mul(Mul(4.0f, e), Mul(r, r));
  }
};

struct Gelu {
  // Beyond this e^(-x^2 / 2) is 0 in fp32.
  static constexpr float kEnd = 14.5f;

  // x Phi(x).
  CASTOR_HD float Value(float x) const {
    return Mul(x, NormalOf(x, Clamp(x, kEnd)).phi);
  }
  // Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi).
  CASTOR_HD float Slope(float x) const {
    const float c = Clamp(x, kEnd);
    const Normal normal = NormalOf(x, c);
    return Fma(Mul(c, 0.3989422804014327f), normal.density, normal.phi);
  }

 private:
  struct Normal {
    float phi, density;
  };
  // Phi(x), and density = e^(-x^2 / 2), for x clamped to c. With t = |c|,
  // Phi(-t) = e^(-t^2 / 2) R(t), in which R(t) = erfcx(t / sqrt(2)) / 2 is
  // smooth: a polynomial in q = (t - 3) / (t + 3) is within 1e-8 of it
  // (fit_normal_tail.py).
  CASTOR_HD static Normal NormalOf(float x, float c) {
    const float t = fabsf(c);
    const float q = Mul(Sub(t, 3.0f), Reciprocal(Add(t, 3.0f)));
    float r = 5.316148239044663e-05f;
    r = Fma(r, q, 0.00011501384962953241f);
    r = Fma(r, q, -0.0003390123538795658f);
    r = Fma(r, q, -0.0009832884560109691f);
    r = Fma(r, q, 0.0029043872262237273f);
    r = Fma(r, q, 0.006131942370664763f);
    r = Fma(r, q, -0.04621326361530924f);
    r = Fma(r, q, 0.12322504121280162f);
    r = Fma(r, q, -0.20640262040881835f);
    r = Fma(r, q, 0.12151394751376765f);
    const float density = expf(Mul(Mul(c, c), -0.5f));
    const float tail = Mul(density, r);
    return {x < 0.0f ? tail : Sub(1.0f, tail), density};
  }
};

template <class Fn>
CASTOR_HD void WithActivation(Activation kind, const Fn& fn) {
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

// y = act(x) (* up).
template <class T>
struct ActivationForwardProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  Activation kind;
  int64_t size;
  const T *x, *up;  // up may be null
  T* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const bool runs =
        HasRuns(x) && HasRuns(y) && (up == nullptr || HasRuns(up));
    WithActivation(kind, [&](const auto& act) {
      ForEachPlace(block, size, runs, [&](const auto& place) {
        auto values = place.LoadFrom(x);
        CASTOR_UNROLL
        for (float& v : values.at) v = act.Value(v);
        if (up != nullptr) {
          const auto factors = place.LoadFrom(up);
          CASTOR_UNROLL
          for (int i = 0; i < place.kCount; ++i) {
            values.at[i] = Mul(values.at[i], factors.at[i]);
          }
        }
        place.StoreTo(y, values);
      });
    });
  }
};

// dx = dy (* up) act'(x), dup = dy act(x).
template <class T>
struct ActivationBackwardProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  Activation kind;
  int64_t size;
  const T *x, *up, *dy;  // up may be null
  T *dx, *dup;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const bool runs = HasRuns(x) && HasRuns(dy) && HasRuns(dx) &&
                      (up == nullptr || (HasRuns(up) && HasRuns(dup)));
    WithActivation(kind, [&](const auto& act) {
      ForEachPlace(block, size, runs, [&](const auto& place) {
        const auto values = place.LoadFrom(x);
        auto gradients = place.LoadFrom(dy);
        if (up != nullptr) {
          const auto factors = place.LoadFrom(up);
          auto gates = gradients;
          CASTOR_UNROLL
          for (int i = 0; i < place.kCount; ++i) {
            gates.at[i] = Mul(gradients.at[i], act.Value(values.at[i]));
            gradients.at[i] = Mul(gradients.at[i], factors.at[i]);
          }
          place.StoreTo(dup, gates);
        }
        CASTOR_UNROLL
        for (int i = 0; i < place.kCount; ++i) {
          gradients.at[i] = Mul(gradients.at[i], act.Slope(values.at[i]));
        }
        place.StoreTo(dx, gradients);
      });
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ACTIVATION_ACTIVATION_PROGRAM_H_
