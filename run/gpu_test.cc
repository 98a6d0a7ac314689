#include "run/gpu.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "device/cuda/fake_api.h"
#include "device/cuda/runtime_api.h"
#include "kernels/kernel_table.h"
#include "run/gpu_kernels.h"

namespace castor {
namespace {

// The machine's GPU, and the GPUs that the build has code for.
cuda::FakeApi* api = nullptr;
int oldest_of_build = 75;

// The words with which a GPU of this compute capability is refused, or "".
std::string WhyNot(int capability, int least_capability) {
  cuda::FakeApi gpu({.compute_capability = capability});
  api = &gpu;
  const auto found = FindGpu(0, least_capability);
  return std::string(found.status().message());
}

TEST(FindGpu, TakesOlderGpusForUpdatesAlone) {
  EXPECT_EQ(WhyNot(80, kAllOperators), "");
  EXPECT_EQ(WhyNot(75, kUpdatesAlone), "");
  const std::string all = WhyNot(75, kAllOperators);
  EXPECT_TRUE(absl::StrContains(all,
                                "has compute capability 7.5; this needs "
                                "8.0 or later"))
      << all;
  const std::string updates = WhyNot(70, kUpdatesAlone);
  EXPECT_TRUE(absl::StrContains(updates, "7.0; this needs 7.5 or later"))
      << updates;
}

TEST(FindGpu, SaysWhatABuildHasNoCodeFor) {
  oldest_of_build = 80;
  const std::string why = WhyNot(75, kUpdatesAlone);
  EXPECT_TRUE(absl::StrContains(why, "CASTOR_CUDA_ARCHS=75,80")) << why;
  oldest_of_build = 75;
}

TEST(MemoryOf, LeavesNcclItsPartWhereThereAreSeveralRanks) {
  constexpr cuda::GpuMemory kGpu = {.free_bytes = 20 * kNcclBytes,
                                    .total_bytes = 32 * kNcclBytes,
                                    .margin_bytes = kNcclBytes};
  EXPECT_EQ(MemoryOf(kGpu, 1).usable_bytes, 19 * kNcclBytes);
  EXPECT_EQ(MemoryOf(kGpu, 2).usable_bytes, 18 * kNcclBytes);
  EXPECT_EQ(MemoryOf(kGpu, 1).room.free_bytes, 20 * kNcclBytes);
  constexpr cuda::GpuMemory kFull = {.free_bytes = kNcclBytes / 2};
  EXPECT_EQ(MemoryOf(kFull, 2).usable_bytes, 0);
}

}  // namespace

namespace cuda {

absl::StatusOr<Api*> RuntimeApi() { return api; }

}  // namespace cuda

const kernels::KernelTable* GpuKernelsOfThisBuild() {
  static const auto* const table = new kernels::KernelTable();
  return table;
}

int OldestCapabilityOfThisBuild() { return oldest_of_build; }

}  // namespace castor
