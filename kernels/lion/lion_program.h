// Lion on a GPU, with the host's bits (kernels/lion/cpu.cc).
#ifndef CASTOR_KERNELS_LION_LION_PROGRAM_H_
#define CASTOR_KERNELS_LION_LION_PROGRAM_H_

#include "kernels/cuda/portable.h"
#include "kernels/lion/lion_math.h"
#include "kernels/state_update/state_program.h"

namespace castor::kernels::cuda {

struct Lion {
  static constexpr int kStates = 1;
  using Scalars = LionScalars;

  CASTOR_HD static void Step(const LionScalars& s, float grad_scale, float grad,
                             float& p, float* m) {
    const float g = Mul(grad, grad_scale);
    const float c = Fma(s.one_minus_beta1, g, Mul(*m, s.beta1));
    p = Add(Mul(p, s.keep), c > 0 ? -s.lr : c < 0 ? s.lr : 0.0f);
    *m = Fma(s.one_minus_beta2, g, Mul(*m, s.beta2));
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_LION_LION_PROGRAM_H_
