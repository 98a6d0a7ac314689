// NCCL itself, among as many ranks as there are GPUs: with one, a rank that
// sends to itself. Its threads are the ranks.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/comm/exchange_communicator.h"
#include "device/comm/testing/communicator_oracle.h"
#include "device/comm/thread_ranks.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/nccl/library_api.h"
#include "device/cuda/nccl/nccl_parts.h"
#include "device/cuda/runtime_api.h"

namespace castor {
namespace {

constexpr int64_t kLimitNs = 60'000'000'000;

absl::Status NoSums(const ExecContext&, DType, int64_t, const void*, float*,
                    bool) {
  return absl::InternalError("these tests only gather");
}

// Gathers of several sizes on rank `me`, in the device's memory.
void Gather(Device& device, Communicator& ranks) {
  const int64_t n = ranks.world_size();
  for (const int64_t bytes : {1, 4096, 1'000'003}) {
    const auto part_of = [&](int64_t rank) {
      return RandomBytes(bytes, static_cast<uint32_t>(bytes + rank));
    };
    const Bytes own = part_of(ranks.rank());
    Bytes expected, got(n * bytes);
    for (int64_t r = 0; r < n; ++r) Append(part_of(r), &expected);
    std::byte* const from = device.memory();
    std::byte* const to = device.memory() + (2 << 20);
    const Fence put =
        device.Copy(StreamId::kHostToDevice, 0, from, own.data(), bytes);
    device.Wait(StreamId::kNetwork, put, 0);
    const absl::StatusOr<Fence> gathered =
        ranks.AllGather("parts", 0, from, to, bytes);
    ASSERT_TRUE(gathered.ok()) << gathered.status();
    device.Wait(StreamId::kDeviceToHost, *gathered, 0);
    const absl::Status status = device.Synchronize(
        device.Copy(StreamId::kDeviceToHost, 0, got.data(), to, n * bytes));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(got, expected) << bytes << " bytes";
  }
}

TEST(Nccl, GathersAmongAllGpus) {
  const auto gpu = cuda::RuntimeApi();
  const absl::StatusOr<int> gpus =
      gpu.ok() ? (*gpu)->CountDevices() : absl::StatusOr<int>(gpu.status());
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  const auto library = nccl::LibraryApi();
  if (!library.ok()) GTEST_SKIP() << library.status().message();
  const int world_size = *gpus;
  std::printf("%d ranks\n", world_size);
  const auto id = (*library)->NewId();
  ASSERT_TRUE(id.ok()) << id.status();
  const auto threads = ThreadGroup::Create(world_size);
  // A rank that failed would be waited for.
  const auto late =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(kLimitNs);
  const auto give_up = [late] {
    return std::chrono::steady_clock::now() < late
               ? absl::OkStatus()
               : absl::UnavailableError("another rank did not come");
  };
  std::vector<std::thread> ranks;
  for (int r = 0; r < world_size; ++r) {
    ranks.emplace_back([&, r] {
      auto device = CudaDevice::Create(
          *gpu, {.ordinal = r, .memory_bytes = (2 << 20) * (1 + world_size)});
      ASSERT_TRUE(device.ok()) << device.status();
      auto parts = nccl::NcclParts::Join(*library, *gpu,
                                         {.ordinal = r,
                                          .rank = r,
                                          .world_size = world_size,
                                          .id = *id,
                                          .add = NoSums},
                                         give_up);
      ASSERT_TRUE(parts.ok()) << parts.status();
      auto communicator = ExchangeCommunicator::Create(
          device->get(), threads->NewTransport(r), {.time_limit_ns = kLimitNs},
          *std::move(parts));
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      Gather(**device, **communicator);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace castor
