// The coefficients of AdamW's update, which are the same on every device.
// Light: CUDA sources include this.
#ifndef CASTOR_KERNELS_ADAM_ADAM_MATH_H_
#define CASTOR_KERNELS_ADAM_ADAM_MATH_H_

#include "kernels/adam/moments.h"

namespace castor::kernels {

struct AdamHyper;

// The coefficients of one step, each formed in double and rounded to fp32. The
// head of kernels/adam/cpu.cc says how they are used.
struct AdamScalars {
  float grad_scale = 1;  // if known beforehand
  bool l2 = false;       // weight_decay != 0, not decoupled
  float weight_decay = 0;
  float keep = 1;  // 1 - lr * weight_decay if decoupled
  MomentScalars moments;
  float minus_step_size = 0;
  float correction2_sqrt = 1;
  float eps = 0;
};

AdamScalars MakeAdamScalars(const AdamHyper& hyper);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ADAM_ADAM_MATH_H_
