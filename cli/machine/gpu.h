// The GPU of a run with {"device": {"type": "cuda"}}, and of `castor info`.
#ifndef CASTOR_CLI_MACHINE_GPU_H_
#define CASTOR_CLI_MACHINE_GPU_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "cli/machine/bandwidth.h"
#include "device/cuda/api.h"
#include "device/cuda/gpu.h"
#include "run/gpu.h"
#include "runtime/train/trainer.h"

namespace castor::cli {

// Makes the trainer run on the GPU, in `dtype`. A budget that is not given
// becomes the usable bytes.
void RunOn(const Gpu& gpu, DType dtype, TrainerOptions* options);

// Returns "NVIDIA H100 80GB HBM3, device memory of up to 78.1 GiB (free ...)".
std::string Describe(const Gpu& gpu);

// A GPU of this machine, and how fast its bus is.
struct FoundGpu {
  cuda::GpuProperties properties;
  cuda::GpuMemory memory;
  int numa_node = -1;  // -1: not known
  // How fast copies are from pinned memory, or why there is none, and from
  // pageable memory.
  absl::StatusOr<BusBandwidth> pinned = absl::UnknownError("not measured");
  BusBandwidth pageable;
};
struct FoundGpus {
  std::vector<FoundGpu> gpus;
  std::string why_none;  // "": there are some
};
// Measures all GPUs that this process sees.
absl::StatusOr<FoundGpus> FindGpus();

std::string Format(const FoundGpus& found);
// Returns an array, or null where there is no GPU (docs/json.md).
nlohmann::json ToJson(const FoundGpus& found);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_GPU_H_
