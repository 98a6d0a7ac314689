// The sum of several micro batches' gradients, kept in fp32 beside the
// parameters, with the same bits on every device.
#ifndef CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_H_
#define CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// sum [size] (+)= the gradient that lies in payload, of type dtype; then, if
// asked, payload = master rounded: one micro batch's gradient leaves its place
// to the parameter again.
struct AccumulateGradientArgs {
  int64_t size = 0;  // elements
  DType dtype = DType::kFloat32;
  void* payload = nullptr;
  float* sum = nullptr;
  const float* master = nullptr;  // looked at only if `restore`
  bool assign = false;   // the first micro batch: sum is set, not added to
  bool restore = false;  // false (the last micro batch): payload stays as it is

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_GRADIENT_SUM_GRADIENT_SUM_H_
