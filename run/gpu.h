// The GPU of a run with {"device": {"type": "cuda"}}.
#ifndef CASTOR_RUN_GPU_H_
#define CASTOR_RUN_GPU_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/cuda/api.h"
#include "device/cuda/gpu.h"
#include "device/device.h"
#include "kernels/kernel_sizes.h"
#include "kernels/kernel_table.h"
#include "run/first_budget.h"

namespace castor {

struct Gpu {
  cuda::Api* api = nullptr;
  const kernels::KernelTable* kernels = nullptr;
  // The sizes that the kernels take: the table's or, of a GPU that is not here,
  // the same from a build that may have no table.
  const kernels::KernelSizes* sizes = nullptr;
  int ordinal = 0;  // among those that this process sees
  cuda::GpuProperties properties;
  cuda::GpuMemory memory;
};

// The GPU of the `local_rank`th of a machine's ranks: of those that are visible
// the one with that number, and from the first again where they are fewer (a
// launcher may show each rank its own alone). `least_capability`:
// kAllOperators, or kUpdatesAlone for a run that takes none but the programs of
// updates, sums and moves. FailedPrecondition, in one line: this build has no
// CUDA, or no code for this GPU, or this machine no GPU that it can use.
inline constexpr int kAllOperators = 80;
inline constexpr int kUpdatesAlone = 75;
absl::StatusOr<Gpu> FindGpu(int local_rank,
                            int least_capability = kAllOperators);
absl::StatusOr<int> GpuOfRank(cuda::Api& api, int local_rank);

// A GPU that is not here, to plan for: `sizes` is all that a plan needs of it.
Gpu GpuElsewhere();

// Bytes that each of several GPUs needs beside its run: buffers of NCCL's
// channels, most of them made when parts first move. It is an estimate until it
// was measured on several GPUs.
inline constexpr int64_t kNcclBytes = int64_t{1} << 30;

// Returns a GPU's memory for one of `world_size` ranks, less kNcclBytes where
// they are several.
DeviceMemory MemoryOf(const cuda::GpuMemory& gpu, int64_t world_size);

// FailedPrecondition: a GPU of this name, whose compute capability is 86 for
// 8.6, has less than `least_capability`.
absl::Status CheckCapability(absl::string_view name, int capability,
                             int least_capability);

// Returns a function that opens it, with an arena of so many bytes and so many
// threads of the host's compute stream. `compute_stream`: see
// CudaDeviceOptions.
std::function<absl::StatusOr<std::unique_ptr<Device>>(int64_t memory_bytes)>
OpenerOf(const Gpu& gpu, int threads,
         std::optional<cuda::Api::Stream> compute_stream = std::nullopt);

// Returns a function that orders two streams of the GPU that somebody else
// works on: work that is queued on `later` from the call on starts after the
// work that was queued on `earlier` until then. Any thread may call it.
std::function<absl::Status(cuda::Api::Stream earlier, cuda::Api::Stream later)>
OrdererOf(const Gpu& gpu);

}  // namespace castor

#endif  // CASTOR_RUN_GPU_H_
