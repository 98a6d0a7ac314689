// How long TestDevice is busy, for benchmarks.
#ifndef CASTOR_KERNELS_CUDA_DEVICE_SECONDS_H_
#define CASTOR_KERNELS_CUDA_DEVICE_SECONDS_H_

#include <functional>

#include "absl/status/statusor.h"

namespace castor::kernels::cuda {

// Calls `queue`, which queues work on TestDevice's stream, waits for it, and
// says how long the stream took for it: on a GPU from an event before it to one
// behind it, so that neither the host's wait nor its way back is in it. The
// stream must be idle before. Where programs are emulated, time is the host's.
absl::StatusOr<double> DeviceSeconds(
    const std::function<absl::Status()>& queue);

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_DEVICE_SECONDS_H_
