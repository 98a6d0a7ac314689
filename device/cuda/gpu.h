// Measures a GPU's memory before it is opened for training.
#ifndef CASTOR_DEVICE_CUDA_GPU_H_
#define CASTOR_DEVICE_CUDA_GPU_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "device/cuda/api.h"
#include "device/cuda/cuda_device.h"

namespace castor::cuda {

struct GpuMemory {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
  // Bytes left to the libraries: for their kernels' code, which CUDA loads at
  // first use, and for memory that they allocate.
  int64_t margin_bytes = 0;
  int64_t usable_bytes() const { return free_bytes - margin_bytes; }
  // "78.1 GiB (free 78.6 GiB of 79.1 GiB, less 512 MiB for ...)"
  std::string ToString() const;
};

// Measures the GPU's memory now. Makes the process's context on it, which takes
// some hundred MiB, and loads our kernels (KernelTable::load; may be null), so
// that neither is counted as free. FailedPrecondition: no GPU.
absl::StatusOr<GpuMemory> MeasureMemory(Api* api, int ordinal,
                                        absl::Status (*load_kernels)());

// Returns what MeasureMemory is expected to say of an idle GPU that is not here
// and reports so many bytes in all.
GpuMemory ExpectMemory(int64_t total_bytes);

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_GPU_H_
