// The CUDA device on a GPU. Where there is none, the tests say so and are
// skipped; cuda_device_test.cc has the same contract over a fake.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/cuda/gpu.h"
#include "device/cuda/overlapping_move.h"
#include "device/cuda/runtime_api.h"
#include "device/testing/device_contract.h"

namespace castor {
namespace {

std::unique_ptr<CudaDevice> Open(int64_t memory_bytes) {
  auto api = cuda::RuntimeApi();
  absl::Status status = api.status();
  if (api.ok()) status = (*api)->CountDevices().status();
  if (!status.ok()) {
    std::printf("skipped: %s\n", std::string(status.message()).c_str());
    return nullptr;
  }
  auto device = CudaDevice::Create(
      *api, {.memory_bytes = memory_bytes, .host_compute_threads = 2});
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *std::move(device) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceContract,
                         testing::Values(DeviceFactory{
                             "cuda",
                             [](int64_t memory_bytes,
                                double) -> std::unique_ptr<Device> {
                               return Open(memory_bytes);
                             },
                             /*limits_bus=*/false}),
                         DeviceContractName);

TEST(GpuDevice, MovesOverlappingBlocks) {
  constexpr int64_t kBytes = 3'000'017;
  auto device = Open(2 * kBytes);
  if (device == nullptr) GTEST_SKIP() << "no GPU";
  std::vector<uint8_t> sent(kBytes), got(kBytes);
  for (int64_t i = 0; i < kBytes; ++i) sent[i] = i * 131 + i / 253;
  // These distances are moved by the kernel (bytes and 16 bytes at a time), in
  // pieces, and in one copy.
  for (int64_t distance : {1, 16, 4096, 300'000, 2'999'999}) {
    for (int64_t bytes : {kBytes, kBytes / 16 * 16}) {
      for (bool up : {true, false}) {
        SCOPED_TRACE(testing::Message() << distance << " of " << bytes);
        std::byte* const low = device->memory();
        std::byte* const from = up ? low : low + distance;
        std::byte* const to = up ? low + distance : low;
        device->Copy(StreamId::kCompute, 0, from, sent.data(), bytes);
        device->Copy(StreamId::kCompute, 0, to, from, bytes);
        device->Wait(StreamId::kDeviceToHost, device->NowAll(), 0);
        device->Copy(StreamId::kDeviceToHost, 0, got.data(), to, bytes);
        ASSERT_TRUE(device->Synchronize(device->NowAll()).ok());
        EXPECT_TRUE(std::equal(got.begin(), got.begin() + bytes, sent.begin()));
      }
    }
  }
}

TEST(GpuDevice, CopiesPinnedMemoryBothWaysAtOnce) {
  constexpr int64_t kBytes = 32 << 20;
  auto device = Open(2 * kBytes);
  if (device == nullptr) GTEST_SKIP() << "no GPU";
  auto* const host =
      static_cast<uint8_t*>(std::aligned_alloc(4096, 2 * kBytes));
  ASSERT_TRUE(device->host_pinner()->PinHost(host, 2 * kBytes).ok());
  for (int64_t i = 0; i < kBytes; ++i) host[i] = i * 7 + i / 255;
  device->Fill(StreamId::kDeviceToHost, 0, device->memory() + kBytes, 0x5A,
               kBytes);
  device->Copy(StreamId::kHostToDevice, 0, device->memory(), host, kBytes);
  device->Copy(StreamId::kDeviceToHost, 0, host + kBytes,
               device->memory() + kBytes, kBytes);
  ASSERT_TRUE(device->Synchronize(device->NowAll()).ok());
  for (int64_t i = 0; i < kBytes; ++i) ASSERT_EQ(host[kBytes + i], 0x5A) << i;
  device->Copy(StreamId::kDeviceToHost, 0, host + kBytes, device->memory(),
               kBytes);
  ASSERT_TRUE(device->Synchronize(device->NowAll()).ok());
  EXPECT_TRUE(std::equal(host, host + kBytes, host + kBytes));
  device->host_pinner()->UnpinHost(host);
  std::free(host);
}

TEST(GpuDevice, AllocatesExactlyWhatIsUsable) {
  if (Open(0) == nullptr) GTEST_SKIP() << "no GPU";
  cuda::Api* const api = *cuda::RuntimeApi();
  const auto memory = cuda::MeasureMemory(api, 0, nullptr);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::printf("usable: %s\n", memory->ToString().c_str());
  EXPECT_NE(Open(memory->usable_bytes()), nullptr);
  const auto larger = CudaDevice::Create(
      api, {.memory_bytes = memory->total_bytes + (1 << 20)});
  EXPECT_TRUE(absl::IsResourceExhausted(larger.status())) << larger.status();
}

}  // namespace
}  // namespace castor
