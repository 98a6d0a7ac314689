#include "device/host/host_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "absl/strings/match.h"
#include "base/test_threads.h"
#include "base/units.h"

namespace castor {
namespace {

absl::Status CreateStatus(const HostDeviceOptions& options) {
  return HostDevice::Create(options).status();
}

TEST(HostDevice, RefusesOptionsThatCannotWork) {
  const auto refused = [](HostDeviceOptions options) {
    return absl::IsInvalidArgument(CreateStatus(options));
  };
  EXPECT_TRUE(refused({.memory_bytes = -1}));
  EXPECT_TRUE(refused({.compute_threads = 0}));
  EXPECT_TRUE(refused({.host_compute_threads = 0}));
  EXPECT_TRUE(refused({.bus_bytes_per_s = -1}));
  EXPECT_TRUE(refused({.bus_bytes_per_s = std::nan("")}));
  EXPECT_TRUE(
      refused({.bus_bytes_per_s = std::numeric_limits<double>::infinity()}));
}

TEST(HostDevice, RefusesUnlimitedMemoryByName) {
  const absl::Status status = CreateStatus({.memory_bytes = kUnlimitedBytes});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "unlimited")) << status;
}

TEST(HostDevice, SaysWhenTheSystemHasNoRoom) {
  // More than any address space of today's processors.
  const absl::Status status = CreateStatus({.memory_bytes = int64_t{1} << 59});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "device_memory")) << status;
}

TEST(HostDevice, SaysWhenTheSystemGivesTooFewThreads) {
  // One for each stream, two for the pools.
  constexpr int kThreads = kNumStreams + 2;
  const HostDeviceOptions options = {.compute_threads = 2,
                                     .host_compute_threads = 2};
  for (int more = 0; more < kThreads; ++more) {
    const FewThreads few(more);
    const absl::Status status = CreateStatus(options);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "thread")) << status;
  }
  const FewThreads enough(kThreads);
  EXPECT_TRUE(CreateStatus(options).ok());
}

TEST(HostDevice, TakesPagesOnlyAsTheyAreTouched) {
  int overcommit = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit;
  if (overcommit == 2) {
    GTEST_SKIP() << "this kernel commits all memory when it is mapped";
  }
  // More than a small machine has; less than ThreadSanitizer's address space.
  constexpr int64_t kBytes = int64_t{64} << 30;
  auto device = HostDevice::Create({.memory_bytes = kBytes});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->memory_bytes(), kBytes);
  (*device)->memory()[kBytes - 1] = std::byte{1};
}

int64_t ResidentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(HostDevice, GivesTheSystemBackWhatItIsResizedTo) {
  constexpr int64_t kLarge = int64_t{64} << 20;
  constexpr int64_t kSmall = (int64_t{4} << 20) + 1;
  auto made = HostDevice::Create(
      {.memory_bytes = kLarge, .most_memory_bytes = 2 * kLarge});
  ASSERT_TRUE(made.ok()) << made.status();
  HostDevice& device = **made;
  std::byte* const memory = device.memory();
  std::memset(memory, 1, kLarge);
  const int64_t before = ResidentBytes();
  ASSERT_TRUE(device.Resize(kSmall).ok());
  EXPECT_EQ(device.memory_bytes(), kSmall);
  EXPECT_LT(ResidentBytes(), before - kLarge / 8 * 7);
  // Nobody can read behind its last page.
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_EQ(write(pipe_ends[1], memory + kSmall - 1, 1), 1);
  EXPECT_EQ(write(pipe_ends[1], memory + kSmall + sysconf(_SC_PAGESIZE), 1),
            -1);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  ASSERT_TRUE(device.Resize(2 * kLarge).ok());
  EXPECT_EQ(device.memory(), memory);
  // The bytes that stayed are there, those that went are not.
  EXPECT_EQ(memory[kSmall - 1], std::byte{1});
  EXPECT_EQ(memory[kLarge - 1], std::byte{0});
  std::memset(memory, 2, 2 * kLarge);
  EXPECT_GT(ResidentBytes(), before);
  EXPECT_TRUE(absl::IsResourceExhausted(device.Resize(3 * kLarge)));
  EXPECT_EQ(device.memory_bytes(), 2 * kLarge);
}

TEST(HostDevice, MayHaveNoMemory) {
  auto device = HostDevice::Create({.memory_bytes = 0});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->memory_bytes(), 0);
}

TEST(HostDevice, GivesEachStreamItsOwnThreads) {
  auto device =
      HostDevice::Create({.compute_threads = 3, .host_compute_threads = 2});
  ASSERT_TRUE(device.ok()) << device.status();
  const int expected[kNumStreams] = {3, 1, 1, 2, 1};
  int threads[kNumStreams];
  const ThreadPool* pools[kNumStreams];
  for (int i = 0; i < kNumStreams; ++i) {
    (*device)->Enqueue(static_cast<StreamId>(i), 0,
                       [&, i](const ExecContext& context) {
                         threads[i] = context.pool->num_threads();
                         pools[i] = context.pool;
                         return absl::OkStatus();
                       });
  }
  ASSERT_TRUE((*device)->Synchronize((*device)->NowAll()).ok());
  for (int i = 0; i < kNumStreams; ++i) {
    EXPECT_EQ(threads[i], expected[i]);
    for (int j = 0; j < i; ++j) EXPECT_NE(pools[i], pools[j]);
  }
}

}  // namespace
}  // namespace castor
