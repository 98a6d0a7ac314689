// DeviceSeconds on a GPU.
#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/gpu_context.h"
#include "kernels/cuda/device_seconds.h"
#include "kernels/cuda/test_device.h"

namespace castor::kernels::cuda {
namespace {

absl::Status ToStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, ": ", cudaGetErrorString(error)));
}

// Two events of the process, which live as long.
struct Events {
  cudaEvent_t begin = nullptr, end = nullptr;
};
absl::StatusOr<Events> MakeEvents() {
  Events events;
  CASTOR_RETURN_IF_ERROR(ToStatus(cudaEventCreate(&events.begin), "an event"));
  CASTOR_RETURN_IF_ERROR(ToStatus(cudaEventCreate(&events.end), "an event"));
  return events;
}

}  // namespace

absl::StatusOr<double> DeviceSeconds(
    const std::function<absl::Status()>& queue) {
  static const auto* const made = new absl::StatusOr<Events>(MakeEvents());
  CASTOR_ASSIGN_OR_RETURN(const Events events, *made);
  TestDevice* const device = TestDevice::Get();
  const auto stream = static_cast<cudaStream_t>(device->context().gpu->stream);
  CASTOR_RETURN_IF_ERROR(
      ToStatus(cudaEventRecord(events.begin, stream), "an event's record"));
  CASTOR_RETURN_IF_ERROR(queue());
  CASTOR_RETURN_IF_ERROR(
      ToStatus(cudaEventRecord(events.end, stream), "an event's record"));
  CASTOR_RETURN_IF_ERROR(device->Synchronize());
  float milliseconds = 0;
  CASTOR_RETURN_IF_ERROR(
      ToStatus(cudaEventElapsedTime(&milliseconds, events.begin, events.end),
               "the time between events"));
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace castor::kernels::cuda
