// The first and the second moment of gradients, for Adam and its variants
// (LAMB):
//
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//
// in PyTorch's order of operations, each rounded once to fp32 (fma: once):
//
//   m = fma(1 - beta1, g - m, m)               beta1 > 0.5
//       fma(-beta1, g - m, g)                  otherwise (PyTorch's lerp)
//   v = fma((1 - beta2) * g, g, v * beta2)
//
// Every coefficient is formed in double and rounded to fp32, as PyTorch does
// with the scalars of a float tensor's operation. Light: CUDA sources include
// this.
#ifndef CASTOR_KERNELS_ADAM_MOMENTS_H_
#define CASTOR_KERNELS_ADAM_MOMENTS_H_

#include <cstdint>

namespace castor::kernels {

struct MomentScalars {
  bool lerp_from_m = true;  // 1 - beta1 < 0.5
  float lerp_weight = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
};

MomentScalars MakeMomentScalars(double beta1, double beta2);

// Returns the divisor of a moment that began at 0, after `step` steps: 1 -
// beta^t, or 1 without correction.
double BiasCorrection(bool corrects, double beta, int64_t step);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ADAM_MOMENTS_H_
