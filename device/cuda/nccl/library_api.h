// The Api that calls NCCL.
#ifndef CASTOR_DEVICE_CUDA_NCCL_LIBRARY_API_H_
#define CASTOR_DEVICE_CUDA_NCCL_LIBRARY_API_H_

#include "absl/status/statusor.h"
#include "device/cuda/nccl/api.h"

namespace castor::nccl {

// Returns the process's Api; the first call opens NVIDIA's libnccl.so.2.
// FailedPrecondition, in one line: this build or this machine has no NCCL.
absl::StatusOr<Api*> LibraryApi();

}  // namespace castor::nccl

#endif  // CASTOR_DEVICE_CUDA_NCCL_LIBRARY_API_H_
