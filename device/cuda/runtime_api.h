// The Api that calls CUDA's runtime.
#ifndef CASTOR_DEVICE_CUDA_RUNTIME_API_H_
#define CASTOR_DEVICE_CUDA_RUNTIME_API_H_

#include "absl/status/statusor.h"
#include "device/cuda/api.h"

namespace castor::cuda {

// Returns the program's Api, which is never destroyed. FailedPrecondition: this
// program was built without CUDA (runtime_api_absent.cc).
absl::StatusOr<Api*> RuntimeApi();

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_RUNTIME_API_H_
