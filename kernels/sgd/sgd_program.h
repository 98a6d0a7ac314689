// SGD on a GPU, with the host's bits (kernels/sgd/cpu.cc).
#ifndef CASTOR_KERNELS_SGD_SGD_PROGRAM_H_
#define CASTOR_KERNELS_SGD_SGD_PROGRAM_H_

#include "kernels/cuda/portable.h"
#include "kernels/sgd/sgd_math.h"
#include "kernels/state_update/state_program.h"

namespace castor::kernels::cuda {

struct Sgd {
  static constexpr int kStates = 1;
  using Scalars = SgdScalars;

  CASTOR_HD static void Step(const SgdScalars& s, float grad_scale, float grad,
                             float& p, float* buf) {
    const float g = Fma(s.weight_decay, p, Mul(grad, grad_scale));
    float direction = g;
    if (s.rule != SgdRule::kPlain) {
      *buf = Fma(s.add, g, Mul(*buf, s.momentum));
      direction =
          s.rule == SgdRule::kNesterov ? Fma(s.momentum, *buf, g) : *buf;
    }
    p = Fma(s.minus_lr, direction, p);
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_SGD_SGD_PROGRAM_H_
