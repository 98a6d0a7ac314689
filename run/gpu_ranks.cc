#include "run/gpu_ranks.h"

#include "base/status_macros.h"
#include "base/units.h"
#include "device/cuda/nccl/join_gpus.h"
#include "device/cuda/nccl/library_api.h"
#include "device/cuda/runtime_api.h"
#include "kernels/gradient_sum/add_to_sum.h"
#include "run/first_budget.h"
#include "run/gpu.h"

namespace castor {

absl::StatusOr<int64_t> FirstBudgetOfGpus(RankGroup& group, int local_rank,
                                          bool follows) {
  const absl::StatusOr<Gpu> own = FindGpu(local_rank, kUpdatesAlone);
  absl::StatusOr<int64_t> budget = own.status();
  if (own.ok()) {
    budget = FirstBudget(MemoryOf(own->memory, group.world_size()),
                         kUnlimitedBytes, follows);
  }
  return LeastOfRanks(group, "device memory", budget);
}

absl::StatusOr<std::unique_ptr<DeviceParts>> JoinGpus(RankGroup& group,
                                                      int local_rank) {
  CASTOR_ASSIGN_OR_RETURN(cuda::Api* const api, cuda::RuntimeApi());
  CASTOR_ASSIGN_OR_RETURN(const int ordinal, GpuOfRank(*api, local_rank));
  return nccl::JoinGpus(group, nccl::LibraryApi(), api, ordinal,
                        kernels::AddToSum);
}

}  // namespace castor
