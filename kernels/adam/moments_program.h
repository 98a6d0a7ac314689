// The moments on a GPU (kernels/adam/moments.h), with the host's bits.
#ifndef CASTOR_KERNELS_ADAM_MOMENTS_PROGRAM_H_
#define CASTOR_KERNELS_ADAM_MOMENTS_PROGRAM_H_

#include "kernels/adam/moments.h"
#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

// Adds gradient g, which is scaled already.
CASTOR_HD void UpdateMoments(const MomentScalars& s, float g, float& m,
                             float& v) {
  m = Fma(s.lerp_weight, Sub(g, m), s.lerp_from_m ? m : g);
  v = Fma(Mul(s.one_minus_beta2, g), g, Mul(v, s.beta2));
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ADAM_MOMENTS_PROGRAM_H_
