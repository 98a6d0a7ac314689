#include "cli/train/rank_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/comm/thread_ranks.h"
#include "device/host/host_device.h"
#include "nlohmann/json.hpp"

namespace castor::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Rank r: two steps that sent r + 1 KiB, one of them waiting for rank 0.
RunReport Own(int rank) {
  RunReport report;
  report.device_peak_bytes = 1000 + (rank == 1 ? 500 : 0);
  report.host_peak_bytes = 2000 + rank;
  const std::vector<StepReport> steps = {
      {.step = 1, .warmup = true, .network_sent_bytes = 9},
      {.step = 2,
       .network_sent_bytes = 1024 * (rank + 1),
       .network_received_bytes = 512,
       .network_wait_seconds = 0.5,
       .late_rank_seconds = {0.25}},
      {.step = 3,
       .network_sent_bytes = 1024 * (rank + 1),
       .network_received_bytes = 512,
       .network_wait_seconds = 0.125,
       .late_rank_seconds = {}},
  };
  for (const StepReport& step : steps) report.steps.Add(step);
  return report;
}

std::vector<RunReport> Merge(int world_size) {
  const auto group = ThreadGroup::Create(world_size);
  std::vector<RunReport> reports(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      auto device = HostDevice::Create({.memory_bytes = 1 << 16});
      ASSERT_TRUE(device.ok()) << device.status();
      auto ranks = MakeThreadRank(group, rank, device->get(), {});
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      reports[rank] = Own(rank);
      const absl::Status merged = MergeReports(**ranks, &reports[rank]);
      EXPECT_TRUE(merged.ok()) << merged;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

TEST(RankReport, HoldsTheFiguresOfAllRanks) {
  const std::vector<RunReport> reports = Merge(3);
  for (const RunReport& report : reports) {
    EXPECT_EQ(report.world_size, 3);
    EXPECT_EQ(report.device_peak_bytes, 1500);
    EXPECT_EQ(report.host_peak_bytes, 2002);
    EXPECT_EQ(report.ranks, reports[0].ranks);
    ASSERT_EQ(report.ranks.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      const RankFigures& figures = report.ranks[rank];
      EXPECT_EQ(figures.rank, rank);
      EXPECT_EQ(figures.host_peak_bytes, 2000 + rank);
      EXPECT_EQ(figures.sent_bytes_per_step, 1024 * (rank + 1));
      EXPECT_EQ(figures.received_bytes_per_step, 512);
      EXPECT_EQ(figures.network_wait_seconds, 0.625);
      EXPECT_EQ(figures.late_rank_seconds, (std::vector<double>{0.25, 0, 0}));
    }
  }
}

TEST(RankReport, IsInTheSummaryAndTheTable) {
  RunReport report = Merge(3)[0];
  report.ranks[1].host = "node-b";
  const auto summary =
      nlohmann::json::parse(SummaryJson(Config(), {}, report, {}));
  EXPECT_EQ(summary["world_size"], 3);
  EXPECT_EQ(summary["device_peak_bytes"], 1500);
  EXPECT_EQ(summary["network_bytes_per_step"], 6 * 1024);
  ASSERT_EQ(summary["ranks"].size(), 3u);
  const auto& one = summary["ranks"][1];
  EXPECT_EQ(one["rank"], 1);
  EXPECT_EQ(one["host"], "node-b");
  EXPECT_EQ(one["device_peak_bytes"], 1500);
  EXPECT_EQ(one["host_peak_bytes"], 2001);
  EXPECT_EQ(one["network_bytes_per_step"], 2048 + 512);
  EXPECT_EQ(one["network_sent_bytes_per_step"], 2048);
  EXPECT_EQ(one["network_received_bytes_per_step"], 512);
  EXPECT_EQ(one["network_wait_seconds"], 0.625);
  EXPECT_EQ(one["network_wait_seconds_by_late_rank"],
            nlohmann::json({0.25, 0.0, 0.0}));
  const std::string table = FinalTable(Config(), {}, report);
  EXPECT_THAT(table, HasSubstr("ranks                      3\n"));
  EXPECT_THAT(table, HasSubstr("network 2.00 KiB out 512 B in a step, waited "
                               "0.625 s for it, of that 0.250 s for rank 0 "
                               "(node-b)"));
}

TEST(RankReport, ShowsOfManyRanksThoseThatStandOut) {
  RunReport report = Own(0);
  report.world_size = 32;
  for (int rank = 0; rank < 32; ++rank) {
    report.ranks.push_back({.rank = rank,
                            .device_peak_bytes = rank == 7 ? 9 : 5,
                            .host_peak_bytes = rank == 9 ? 9 : 5,
                            .network_wait_seconds = rank == 30  ? 2.0
                                                    : rank == 2 ? 0.5
                                                                : 1.0});
  }
  const std::string table = FinalTable(Config(), {}, report);
  for (const char* const shown :
       {"rank 7 ", "rank 9 ", "rank 30 ", "rank 2 "}) {
    EXPECT_THAT(table, HasSubstr(shown));
  }
  EXPECT_THAT(table, Not(HasSubstr("rank 1 ")));
}

TEST(RankReport, IsNotThereOnOneRank) {
  const RunReport report = Own(0);
  const auto summary =
      nlohmann::json::parse(SummaryJson(Config(), {}, report, {}));
  EXPECT_EQ(summary["world_size"], 1);
  EXPECT_FALSE(summary.contains("ranks"));
  EXPECT_FALSE(summary.contains("network_bytes_per_step"));
}

}  // namespace
}  // namespace castor::cli
