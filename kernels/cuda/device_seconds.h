// Measures the time for which TestDevice is busy, for benchmarks.
#ifndef CASTOR_KERNELS_CUDA_DEVICE_SECONDS_H_
#define CASTOR_KERNELS_CUDA_DEVICE_SECONDS_H_

#include <functional>

#include "absl/status/statusor.h"

namespace castor::kernels::cuda {

// Calls `queue`, which queues work on TestDevice's stream, waits for the work,
// and returns the time that the stream took: on a GPU from an event before it
// to one after it, without the host's wait. The stream must be idle before.
// Where programs are emulated, the time is the host's.
absl::StatusOr<double> DeviceSeconds(
    const std::function<absl::Status()>& queue);

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_DEVICE_SECONDS_H_
