// Vector loops over one row: softmax, soft cap, their gradients. Chosen at run
// time for the processor; the bits do not depend on alignment. exp is within 1
// ulp (Highway's), and a NaN stays a NaN.
#ifndef CASTOR_KERNELS_CPU_ROW_OPS_H_
#define CASTOR_KERNELS_CPU_ROW_OPS_H_

#include <cstdint>

namespace castor::kernels::cpu {

// max of x [size], size >= 1; NaNs are ignored or kept.
float MaxOf(const float* x, int64_t size);

// sum of exp(x - shift).
float SumExp(const float* x, int64_t size, float shift);

// x = softmax(x), size >= 1. Returns the log-sum-exp.
float Softmax(float* x, int64_t size);

// x = exp(x - lse) * scale: scaled probabilities from the row's log-sum-exp.
void ExpScaled(float* x, int64_t size, float lse, float scale);

// sum of x * y.
float Dot(const float* x, const float* y, int64_t size);

// x *= y.
void MultiplyInto(const float* y, int64_t size, float* x);

// One row of attention's backward pass. In: s (scaled scores), dp (gradient of
// the dropped p). With p = exp(s - lse), f the dropout factors (1 if null):
//   out: s = p f (the dropped p), dp = p (dp f - delta) scale.
void AttentionGradient(float* s, float* dp, int64_t size, float lse,
                       float delta, float scale, const float* factors);

// x = cap tanh(x / cap), and slopes = its derivative (null: not computed). tanh
// is within 4 ulp (Highway's).
void SoftCap(float* x, int64_t size, float cap, float* slopes);

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_CPU_ROW_OPS_H_
