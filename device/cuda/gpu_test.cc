// Opening a GPU: the kernels' code is there before anything else is taken.
#include "device/cuda/gpu.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "absl/strings/match.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/fake_api.h"

namespace castor::cuda {
namespace {

// Stands for the loading of kernels: their code takes device memory.
FakeApi* gpu_of_load = nullptr;
int loads = 0;
absl::Status LoadOneMebibyte() {
  ++loads;
  return gpu_of_load->Allocate(1 << 20).status();
}

TEST(Gpu, LoadsKernelsBeforeItTakesItsMemory) {
  FakeApi api({.memory_bytes = 3 << 20});
  gpu_of_load = &api;
  loads = 0;
  // With the kernels there is no room for the memory that had room before.
  const absl::Status status =
      CudaDevice::Create(
          &api, {.memory_bytes = 3 << 20, .load_kernels = LoadOneMebibyte})
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "free 2.00 MiB")) << status;
  EXPECT_EQ(loads, 1);
  const auto failed = CudaDevice::Create(
      &api, {.memory_bytes = 4096,
             .load_kernels = [] { return absl::InternalError("no image"); }});
  EXPECT_EQ(failed.status().message(), "cuda device: no image");
  api.FreeAll();
}

TEST(Gpu, MeasuresWhatIsFreeBesideTheKernels) {
  FakeApi api({.memory_bytes = int64_t{4} << 30});
  gpu_of_load = &api;
  const auto without = MeasureMemory(&api, 0, nullptr);
  const auto with = MeasureMemory(&api, 0, LoadOneMebibyte);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(without->free_bytes - with->free_bytes, 1 << 20);
  api.FreeAll();
}

}  // namespace
}  // namespace castor::cuda
