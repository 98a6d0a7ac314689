#include "device/comm/clock_sync.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "device/comm/thread_ranks.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

// Returns what ranks measure whose clocks are ahead by so much.
std::vector<absl::StatusOr<ClockOffset>> Measure(
    const std::shared_ptr<ThreadGroup>& group,
    const std::vector<int64_t>& ahead_ns) {
  std::vector<absl::StatusOr<ClockOffset>> offsets(
      ahead_ns.size(), absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < group->world_size(); ++rank) {
    threads.emplace_back([&, rank] {
      auto device = HostDevice::Create({.memory_bytes = 1 << 16});
      ASSERT_TRUE(device.ok()) << device.status();
      auto ranks = MakeThreadRank(group, rank, device->get(), {});
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      offsets[rank] = MeasureClockOffset(**ranks, "clocks", [&] {
        return (*device)->NowNs() + ahead_ns[rank];
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return offsets;
}

TEST(ClockSync, BoundsTheDifferenceToRank0) {
  const std::vector<int64_t> ahead_ns = {5'000'000'000, 0, 5'000'000'000,
                                         -3'000'000'000'000};
  const auto offsets = Measure(ThreadGroup::Create(4), ahead_ns);
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(offsets[rank].ok()) << offsets[rank].status();
    const int64_t right_ns = ahead_ns[0] - ahead_ns[rank];
    EXPECT_LE(std::abs(offsets[rank]->offset_ns - right_ns),
              offsets[rank]->error_ns)
        << rank;
  }
  EXPECT_EQ(offsets[0]->offset_ns, 0);
  EXPECT_EQ(offsets[0]->error_ns, 0);
  EXPECT_GT(offsets[3]->error_ns, 0);
}

TEST(ClockSync, EndsWithTheGroup) {
  const auto group = ThreadGroup::Create(3);
  group->SetFaults(2, {.die_after = 5});
  for (const auto& offset : Measure(group, {0, 0, 0})) {
    EXPECT_EQ(offset.status().code(), absl::StatusCode::kUnavailable)
        << offset.status();
  }
}

}  // namespace
}  // namespace castor
