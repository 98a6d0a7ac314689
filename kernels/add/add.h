// The sum of two arrays, formed in fp32 and rounded once, with the same bits on
// every device.
#ifndef CASTOR_KERNELS_ADD_ADD_H_
#define CASTOR_KERNELS_ADD_ADD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// y [size] = a + b. y may equal a or b.
struct AddArgs {
  DType dtype = DType::kFloat32;
  int64_t size = 0;  // elements
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ADD_ADD_H_
