// The coefficients of LAMB's update, which are the same on every device. Light:
// CUDA sources include this.
#ifndef CASTOR_KERNELS_LAMB_LAMB_MATH_H_
#define CASTOR_KERNELS_LAMB_LAMB_MATH_H_

#include <cstdint>

#include "kernels/adam/moments.h"
#include "kernels/cuda/portable.h"

namespace castor::kernels {

struct LambRange;

// The coefficients of one step of one range. Those in fp32 are formed in double
// and rounded; the head of kernels/lamb/cpu.cc says how they are used.
struct LambScalars {
  MomentScalars moments;
  float correction1_inverse = 1;
  float correction2_sqrt = 1;
  float eps = 0;
  float weight_decay = 0;
  double lr = 0;
  double max_coeff = 0;
  double min_coeff = 0;
  int64_t first_sum = 0;  // of the range's parameter
};

LambScalars MakeLambScalars(const LambRange& range);

// Returns -lr * ratio, computed in double and rounded, from the sums of squares
// of a parameter and of its update. A NaN among them gives a NaN.
CASTOR_HD float LambStepSize(const LambScalars& s, double parameter,
                             double update) {
  double ratio = 1;
  if (parameter != 0 && update != 0) {
    ratio = cuda::Div(cuda::Sqrt(parameter), cuda::Sqrt(update));
    if (ratio > s.max_coeff) ratio = s.max_coeff;
    if (ratio < s.min_coeff) ratio = s.min_coeff;
  }
  return static_cast<float>(-(s.lr * ratio));
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_LAMB_LAMB_MATH_H_
