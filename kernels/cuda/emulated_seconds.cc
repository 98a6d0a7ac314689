// DeviceSeconds where programs run on the host.
#include <chrono>

#include "base/status_macros.h"
#include "kernels/cuda/device_seconds.h"
#include "kernels/cuda/test_device.h"

namespace castor::kernels::cuda {

absl::StatusOr<double> DeviceSeconds(
    const std::function<absl::Status()>& queue) {
  const auto begin = std::chrono::steady_clock::now();
  CASTOR_RETURN_IF_ERROR(queue());
  CASTOR_RETURN_IF_ERROR(TestDevice::Get()->Synchronize());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace castor::kernels::cuda
