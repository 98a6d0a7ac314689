#include "device/cuda/nccl/join_gpus.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor::nccl {
namespace {

absl::Status CheckOneRankEach(const std::vector<std::string>& gpus,
                              const cuda::GpuProperties& own) {
  for (size_t a = 0; a < gpus.size(); ++a) {
    for (size_t b = a + 1; b < gpus.size(); ++b) {
      if (gpus[a] != gpus[b]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "ranks ", a, " and ", b, " would share one ", own.name, " (", gpus[a],
          "): start no more ranks on a machine than it has GPUs"));
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
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> gpus,
                          group.Exchange("GPUs", own->uuid));
  CASTOR_RETURN_IF_ERROR(CheckOneRankEach(gpus, *own));
  absl::StatusOr<std::string> id = "";
  if (!nccl.ok()) {
    id = nccl.status();
  } else if (group.rank() == 0) {
    id = (*nccl)->NewId();
  }
  CASTOR_RETURN_IF_ERROR(group.Agree("NCCL", id.status()));
  CASTOR_ASSIGN_OR_RETURN(std::vector<std::string> ids,
                          group.Exchange("NCCL's id", *id));
  const auto late = std::chrono::steady_clock::now() +
                    std::chrono::nanoseconds(group.options().time_limit_ns);
  auto parts =
      NcclParts::Join(*nccl, gpu,
                      {.ordinal = ordinal,
                       .rank = group.rank(),
                       .world_size = group.world_size(),
                       .id = std::move(ids[0]),
                       .add = add},
                      [&]() -> absl::Status {
                        CASTOR_RETURN_IF_ERROR(group.failure());
                        if (std::chrono::steady_clock::now() < late)
                          return absl::OkStatus();
                        return absl::UnavailableError(
                            "the ranks' GPUs did not find each other in time "
                            "(network.timeout_seconds)");
                      });
  // The others may still wait inside NCCL, where this alone reaches them.
  if (!parts.ok()) group.Fail(parts.status());
  const absl::Status agreed = group.Agree("NCCL's group", parts.status());
  if (!agreed.ok()) return agreed;
  return parts;
}

}  // namespace castor::nccl
