// The GPUs of several ranks, each of which has one of its own.
#ifndef CASTOR_RUN_GPU_RANKS_H_
#define CASTOR_RUN_GPU_RANKS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "device/comm/device_parts.h"
#include "device/comm/rank_group.h"

namespace castor {

// Returns the bytes with which all ranks begin where none were asked for, so
// that all plan alike: the least of their FirstBudget. `local_rank`: see
// FindGpu (run/gpu.h). All ranks call it together, and a failure is the same on
// all.
absl::StatusOr<int64_t> FirstBudgetOfGpus(RankGroup& group, int local_rank,
                                          bool follows);

// Joins the ranks' GPUs, so that parts can move between them; see
// device/cuda/nccl/join_gpus.h.
absl::StatusOr<std::unique_ptr<DeviceParts>> JoinGpus(RankGroup& group,
                                                      int local_rank);

}  // namespace castor

#endif  // CASTOR_RUN_GPU_RANKS_H_
