#include "run/gpu_ranks.h"

#include <algorithm>

#include "base/status_macros.h"
#include "device/cuda/nccl/join_gpus.h"
#include "device/cuda/nccl/library_api.h"
#include "device/cuda/runtime_api.h"
#include "kernels/gradient_sum/add_to_sum.h"
#include "run/gpu.h"

namespace castor {

absl::StatusOr<int64_t> CommonDeviceMemory(RankGroup& group, int local_rank) {
  const absl::StatusOr<Gpu> own = FindGpu(local_rank, kUpdatesAlone);
  absl::StatusOr<int64_t> usable = own.status();
  if (own.ok()) usable = own->memory.usable_bytes() - kNcclBytes;
  CASTOR_ASSIGN_OR_RETURN(const int64_t least,
                          LeastOfRanks(group, "device memory", usable));
  return std::max<int64_t>(0, least);
}

absl::StatusOr<std::unique_ptr<DeviceParts>> JoinGpus(RankGroup& group,
                                                      int local_rank) {
  CASTOR_ASSIGN_OR_RETURN(cuda::Api* const api, cuda::RuntimeApi());
  CASTOR_ASSIGN_OR_RETURN(const int ordinal, GpuOfRank(*api, local_rank));
  return nccl::JoinGpus(group, nccl::LibraryApi(), api, ordinal,
                        kernels::AddToSum);
}

}  // namespace castor
