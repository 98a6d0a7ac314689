// Elementwise operators. All compute in fp32 and round once. Sizes in elements.
#ifndef CASTOR_KERNELS_ELEMENTWISE_H_
#define CASTOR_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "device/device.h"

namespace castor::kernels {

// y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), Hugging Face's
// "gelu_new". Source: Hendrycks, Gimpel, "Gaussian error linear units", 2016.
absl::Status GeluForward(const ExecContext& context, DType dtype, int64_t size,
                         const void* x, void* y);
// dx = dy * gelu'(x). dx may equal dy.
absl::Status GeluBackward(const ExecContext& context, DType dtype, int64_t size,
                          const void* x, const void* dy, void* dx);

// y = a + b. y may equal a or b.
absl::Status Add(const ExecContext& context, DType dtype, int64_t size,
                 const void* a, const void* b, void* y);

// Dropout (Srivastava et al., 2014), inverted: element i is kept when
// RandomWord(key, i) >= DropoutThreshold(p), and scaled by 1 / (1 - p). The
// mask is never stored: backward draws it again. Returns p * 2^32, rounded; p
// in [0, 1).
uint32_t DropoutThreshold(float p);

// y = dropout(x) (+ residual, unless null). y may equal x or residual.
// With p == 0: a copy or a sum.
absl::Status Dropout(const ExecContext& context, DType dtype, int64_t size,
                     float p, RandomKey key, const void* x,
                     const void* residual, void* y);

// db [C] = sum over rows of dy [N, C], in fixed tiles of rows. accumulate:
// added to what is there.
absl::Status BiasGradient(const ExecContext& context, DType dtype, int64_t rows,
                          int64_t channels, const void* dy, void* db,
                          bool accumulate);

// y = x converted. Sizes may not overlap unless x == y and the types are equal.
absl::Status Cast(const ExecContext& context, int64_t size, DType from,
                  const void* x, DType to, void* y);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ELEMENTWISE_H_
