// NCCL itself.
#ifndef CASTOR_DEVICE_CUDA_NCCL_LIBRARY_API_H_
#define CASTOR_DEVICE_CUDA_NCCL_LIBRARY_API_H_

#include "absl/status/statusor.h"
#include "device/cuda/nccl/api.h"

namespace castor::nccl {

// The process's one; NVIDIA's libnccl.so.2 is opened by the first call.
// FailedPrecondition, in one line: this build has no NCCL, or this machine.
absl::StatusOr<Api*> LibraryApi();

}  // namespace castor::nccl

#endif  // CASTOR_DEVICE_CUDA_NCCL_LIBRARY_API_H_
