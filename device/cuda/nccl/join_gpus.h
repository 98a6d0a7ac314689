// Connects the GPUs of a group of ranks, once each rank has its own.
#ifndef CASTOR_DEVICE_CUDA_NCCL_JOIN_GPUS_H_
#define CASTOR_DEVICE_CUDA_NCCL_JOIN_GPUS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "device/comm/device_parts.h"
#include "device/comm/rank_group.h"
#include "device/cuda/api.h"
#include "device/cuda/nccl/api.h"
#include "device/cuda/nccl/nccl_parts.h"

namespace castor::nccl {

// Returns the DeviceParts between this rank's GPU, `ordinal` of `gpu`, and the
// others'. `nccl` may be the reason why there is no NCCL here. All ranks call
// it together, and a failure is the same on all. InvalidArgument: two ranks
// have the same GPU. FailedPrecondition: a rank has no NCCL.
absl::StatusOr<std::unique_ptr<DeviceParts>> JoinGpus(
    RankGroup& group, const absl::StatusOr<Api*>& nccl, cuda::Api* gpu,
    int ordinal, decltype(PartsOptions::add) add);

}  // namespace castor::nccl

#endif  // CASTOR_DEVICE_CUDA_NCCL_JOIN_GPUS_H_
