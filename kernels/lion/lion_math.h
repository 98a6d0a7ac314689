// The coefficients of Lion's update, which are the same on every device. Light:
// CUDA sources include this.
#ifndef CASTOR_KERNELS_LION_LION_MATH_H_
#define CASTOR_KERNELS_LION_LION_MATH_H_

namespace castor::kernels {

struct LionHyper;

// Each is formed in double and rounded to fp32. The head of kernels/lion/cpu.cc
// says how they are used.
struct LionScalars {
  float grad_scale = 1;  // if known beforehand
  float keep = 1;        // 1 - lr * weight_decay
  float lr = 0;
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
};

LionScalars MakeLionScalars(const LionHyper& hyper);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_LION_LION_MATH_H_
