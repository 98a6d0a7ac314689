// The GPU of a run with {"device": {"type": "cuda"}}, and of `castor info`.
#ifndef CASTOR_CLI_MACHINE_GPU_H_
#define CASTOR_CLI_MACHINE_GPU_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/comm/device_parts.h"
#include "device/comm/rank_group.h"
#include "run/gpu.h"
#include "runtime/train/trainer.h"

namespace castor::cli {

// Has the trainer run on it. A budget that is not given becomes what is usable.
void RunOn(const Gpu& gpu, TrainerOptions* options);

// What the GPUs of all ranks have room for, so that all plan alike: the least
// of what is usable, less what NCCL takes for itself.
absl::StatusOr<int64_t> CommonDeviceMemory(RankGroup& group, int local_rank);

// What moves parts between the ranks' GPUs; see device/cuda/nccl/join_gpus.h.
absl::StatusOr<std::unique_ptr<DeviceParts>> JoinGpus(RankGroup& group,
                                                      int local_rank);

// "NVIDIA H100 80GB HBM3, device memory of up to 78.1 GiB (free ...)"
std::string Describe(const Gpu& gpu);

// Prints what GPUs there are, and the bandwidth of the first one's bus; where
// there is none, why.
absl::Status PrintGpus();

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_GPU_H_
