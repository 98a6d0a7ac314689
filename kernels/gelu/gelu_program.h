// GELU and its gradient, in the order of operations of the host's (cpu.cc).
#ifndef CASTOR_KERNELS_GELU_GELU_PROGRAM_H_
#define CASTOR_KERNELS_GELU_GELU_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/portable.h"

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

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_GELU_GELU_PROGRAM_H_
