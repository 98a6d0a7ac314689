// The gradient of a bias: a sum down the columns of a matrix, in fixed tiles of
// rows, with the same bits on every device.
#ifndef CASTOR_KERNELS_BIAS_GRADIENT_BIAS_GRADIENT_H_
#define CASTOR_KERNELS_BIAS_GRADIENT_BIAS_GRADIENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// db [C] (+)= the sum over rows of dy [N, C], formed in fp32 and rounded once.
struct BiasGradientArgs {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
  const void* dy = nullptr;
  void* db = nullptr;
  bool accumulate = false;  // adds the sum to db

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_BIAS_GRADIENT_BIAS_GRADIENT_H_
