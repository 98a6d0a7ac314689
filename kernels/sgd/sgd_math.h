// The coefficients of SGD's update, which are the same on every device. Light:
// CUDA sources include this.
#ifndef CASTOR_KERNELS_SGD_SGD_MATH_H_
#define CASTOR_KERNELS_SGD_SGD_MATH_H_

#include <cstdint>

namespace castor::kernels {

struct SgdHyper;

enum class SgdRule : int32_t { kPlain, kMomentum, kNesterov };

// Each is formed in double and rounded to fp32. The head of kernels/sgd/cpu.cc
// says how they are used.
struct SgdScalars {
  float grad_scale = 1;  // if known beforehand
  SgdRule rule = SgdRule::kPlain;
  float weight_decay = 0;
  float momentum = 0;
  float add = 1;  // 1 - dampening, or 1 in the first step
  float minus_lr = 0;
};

SgdScalars MakeSgdScalars(const SgdHyper& hyper);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_SGD_SGD_MATH_H_
