// The GPUs of several ranks, each of which has one of its own.
#ifndef CASTOR_RUN_GPU_RANKS_H_
#define CASTOR_RUN_GPU_RANKS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "device/comm/device_parts.h"
#include "device/comm/rank_group.h"

namespace castor {

// What the GPUs of all ranks have room for, so that all plan alike: the least
// of what is usable, less what NCCL takes for itself. `local_rank`: see FindGpu
// (run/gpu.h). All ranks call it together, and a failure is the same on all.
absl::StatusOr<int64_t> CommonDeviceMemory(RankGroup& group, int local_rank);

// What moves parts between the ranks' GPUs; see device/cuda/nccl/join_gpus.h.
absl::StatusOr<std::unique_ptr<DeviceParts>> JoinGpus(RankGroup& group,
                                                      int local_rank);

}  // namespace castor

#endif  // CASTOR_RUN_GPU_RANKS_H_
