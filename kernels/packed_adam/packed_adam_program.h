// Adam with packed moments on a GPU, with the host's bits
// (kernels/packed_adam/cpu.cc).
#ifndef CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_PROGRAM_H_
#define CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_PROGRAM_H_

#include "kernels/adam/adam_math.h"
#include "kernels/adam/adam_program.h"
#include "kernels/cuda/portable.h"
#include "kernels/state_update/state_program.h"

namespace castor::kernels::cuda {

struct PackedAdam {
  static constexpr int kStates = 2;
  using Scalars = AdamScalars;

  CASTOR_HD static void Step(const AdamScalars& s, float grad_scale, float grad,
                             float& p, float* moments) {
    AdamElement(s, grad_scale, grad, p, moments[0], moments[1]);
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_PROGRAM_H_
