#include "run/gpu_ranks.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/cuda/nccl/join_gpus.h"
#include "device/cuda/nccl/library_api.h"
#include "device/cuda/runtime_api.h"
#include "kernels/gradient_sum/add_to_sum.h"
#include "run/gpu.h"

namespace castor {

absl::StatusOr<int64_t> CommonDeviceMemory(RankGroup& group, int local_rank) {
  const absl::StatusOr<Gpu> own = FindGpu(local_rank, kUpdatesAlone);
  CASTOR_RETURN_IF_ERROR(group.Agree("GPU", own.status()));
  CASTOR_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      group.Exchange("device memory",
                     absl::StrCat(own->memory.usable_bytes() - kNcclBytes)));
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const std::string& text : all) {
    int64_t bytes = 0;
    if (!absl::SimpleAtoi(text, &bytes)) {
      return absl::InternalError("a rank's device memory cannot be read");
    }
    least = std::min(least, bytes);
  }
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
