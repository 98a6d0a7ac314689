// Conversion between types: to the nearest value, ties to even, with the same
// bits on every device (except for NaNs).
#ifndef CASTOR_KERNELS_CAST_CAST_H_
#define CASTOR_KERNELS_CAST_CAST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// y [size], of type `to`, = x, of type `from`. x and y may not overlap, unless
// they and their types are equal: then nothing is done.
struct CastArgs {
  int64_t size = 0;  // elements
  DType from = DType::kFloat32;
  const void* x = nullptr;
  DType to = DType::kFloat32;
  void* y = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_CAST_CAST_H_
