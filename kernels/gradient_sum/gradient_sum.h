// The sum of several micro batches' gradients, in a separate fp32 buffer, with
// the same bits on every device.
#ifndef CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_H_
#define CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// sum [size] (+)= the gradient that lies in payload, of type dtype; then, with
// `restore`, payload = master rounded: the parameter takes its place back from
// the micro batch's gradient.
struct AccumulateGradientArgs {
  int64_t size = 0;  // elements
  DType dtype = DType::kFloat32;
  void* payload = nullptr;
  float* sum = nullptr;
  const float* master = nullptr;  // read only if `restore`
  bool assign = false;   // the first micro batch: sum is set, not added to
  bool restore = false;  // false (the last micro batch): payload stays

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_H_
