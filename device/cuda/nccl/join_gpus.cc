#include "device/cuda/nccl/join_gpus.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/host_name.h"
#include "base/status_macros.h"

namespace castor::nccl {
namespace {

absl::Status CheckOneRankEach(const std::vector<std::string>& gpus) {
  for (size_t a = 0; a < gpus.size(); ++a) {
    for (size_t b = a + 1; b < gpus.size(); ++b) {
      if (gpus[a] != gpus[b]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "ranks ", a, " and ", b, " would share the GPU ", gpus[a],
          ": start no more ranks on a machine than it has GPUs"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceParts>> JoinGpus(
    RankGroup& group, const absl::StatusOr<Api*>& nccl, cuda::Api* gpu,
    int ordinal, decltype(PartsOptions::add) add) {
  const absl::StatusOr<cuda::GpuProperties> own = gpu->Properties(ordinal);
  CASTOR_RETURN_IF_ERROR(group.Agree("own GPU", own.status()));
  CASTOR_ASSIGN_OR_RETURN(
      const std::vector<std::string> gpus,
      group.Exchange("GPUs",
                     absl::StrCat(own->pci_bus_id, " of ", HostName())));
  CASTOR_RETURN_IF_ERROR(CheckOneRankEach(gpus));
  absl::StatusOr<std::string> id = "";
  if (!nccl.ok()) {
    id = nccl.status();
  } else if (group.rank() == 0) {
    id = (*nccl)->NewId();
  }
  CASTOR_RETURN_IF_ERROR(group.Agree("NCCL", id.status()));
  CASTOR_ASSIGN_OR_RETURN(std::vector<std::string> ids,
                          group.Exchange("NCCL's id", *id));
  auto parts = NcclParts::Join(*nccl, gpu,
                               {.ordinal = ordinal,
                                .rank = group.rank(),
                                .world_size = group.world_size(),
                                .id = std::move(ids[0]),
                                .add = add},
                               [&] { return group.failure(); });
  CASTOR_RETURN_IF_ERROR(group.Agree("NCCL's group", parts.status()));
  return parts;
}

}  // namespace castor::nccl
