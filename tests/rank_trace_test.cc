// Traces of several ranks, as threads: each rank's own lines, how they become
// one file, and which rank they call late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/test_files.h"
#include "device/comm/thread_ranks.h"
#include "run/report/run_trace.h"
#include "tests/training_harness.h"
#include "tracer/events.h"
#include "tracer/rank_traces.h"

namespace castor::cli {
namespace {

using ::castor::testing::RunRank;
using ::castor::testing::StatePiece;
using ::castor::testing::TrainingCase;
using ::castor::testing::TrainingResult;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int64_t kSteps = 5;

TrainingCase Small(const PlacementPolicy* policy) {
  TrainingCase c;
  c.model.n_layer = 2;
  c.model.n_head = 2;
  c.model.n_embd = 16;
  c.model.n_positions = 8;
  c.model.vocab_size = 32;
  c.dtype = DType::kBFloat16;
  c.options.shape = {.batch = 1, .length = 8, .micro_batches = kRanks};
  c.options.memory.policy = policy;
  c.options.memory.chunk_bytes = 4096;
  c.options.optimizer.gradient_clipping = 1;
  c.world_size = kRanks;
  c.steps = kSteps;
  return c;
}

// Called on each rank when the steps are over, with its trace.
using AtTheEnd = std::function<absl::Status(RunTrace&, int rank)>;

std::vector<absl::StatusOr<TrainingResult>> RunTraced(
    const std::shared_ptr<ThreadGroup>& group, const PlacementPolicy* policy,
    const std::vector<std::string>& paths, const AtTheEnd& at_the_end,
    std::vector<std::vector<StepReport>>* reports = nullptr) {
  std::vector<absl::StatusOr<TrainingResult>> results(
      kRanks, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      TrainingCase c = Small(policy);
      std::unique_ptr<RunTrace> trace;
      c.after_step = [&, rank](Trainer& trainer, int64_t step) -> absl::Status {
        if (step == 1) {
          CASTOR_ASSIGN_OR_RETURN(
              trace, RunTrace::Create(paths[rank], {.title = "ranks"},
                                      {.first = 3, .last = 4}, &trainer));
        }
        if (step == kSteps) CASTOR_RETURN_IF_ERROR(trainer.Drain());
        for (const StepReport& report : trainer.TakeReports()) {
          trace->OnResult(report);
          if (reports != nullptr) (*reports)[rank].push_back(report);
        }
        if (step < kSteps) return absl::OkStatus();
        const absl::Status status = at_the_end(*trace, rank);
        trace = nullptr;
        return status;
      };
      std::vector<StatePiece> pieces;
      results[rank] = RunRank(c,
                              {.rank = rank,
                               .world_size = kRanks,
                               .join =
                                   [&](Device* device) {
                                     return MakeThreadRank(
                                         group, rank, device,
                                         {.time_limit_ns = 60'000'000'000});
                                   }},
                              nullptr, &pieces);
      if (!results[rank].ok()) group->Kill(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::string WithoutZeros(std::string text) {
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

// Returns the collectives of the traced steps. Of those between steps a rank
// has the ones to which its stream came after the window was opened, when its
// first step began: their number differs between ranks.
std::vector<NetworkRecord> NetworksOfSteps(const TraceContents& contents) {
  std::set<std::pair<int64_t, int64_t>> of_steps;
  for (const WorkRecord& work : contents.works) {
    if (work.step >= 0) of_steps.emplace(work.stream, work.count);
  }
  std::vector<NetworkRecord> networks;
  for (const NetworkRecord& network : contents.networks) {
    if (of_steps.count({network.stream, network.count}) > 0) {
      networks.push_back(network);
    }
  }
  return networks;
}

TEST(RankTrace, BecomesOneFileOfEachRanksOwnLines) {
  for (const PlacementPolicy* policy :
       {FindPolicy("cpu"), FindPolicy("cuda")}) {
    TemporaryDirectory directory;
    const std::string path = directory.path() + "/run.trace";
    WriteFile(RankFileName(path, 5), "of an earlier run of more ranks");
    std::vector<std::string> own(kRanks);
    const auto results = RunTraced(
        ThreadGroup::Create(kRanks), policy,
        std::vector<std::string>(kRanks, path), [&](RunTrace& trace, int rank) {
          trace.Finish("finished", "");
          own[rank] = WithoutZeros(ReadFile(RankFileName(path, rank)));
          return trace.Merge();
        });
    for (const auto& result : results)
      ASSERT_TRUE(result.ok()) << result.status();
    // The merged file has each rank's lines, followed by that rank's last word
    // about its clock.
    const std::string merged = ReadFile(path);
    size_t at = 0;
    for (const std::string& lines : own) {
      EXPECT_EQ(merged.substr(at, lines.size()), lines);
      at = merged.find('\n', at + lines.size()) + 1;
    }
    EXPECT_EQ(at, merged.size());
    for (int rank = 1; rank < kRanks; ++rank) {
      EXPECT_FALSE(std::filesystem::exists(RankFileName(path, rank)));
    }

    const auto all = ReadRankTraces(path);
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_EQ(all->size(), static_cast<size_t>(kRanks));
    const std::vector<NetworkRecord> of_rank_0 = NetworksOfSteps((*all)[0]);
    for (int rank = 0; rank < kRanks; ++rank) {
      const TraceContents& contents = (*all)[rank];
      EXPECT_EQ(contents.run->rank, rank);
      EXPECT_EQ(contents.run->streams.back(), "network");
      EXPECT_EQ(contents.results.size(), static_cast<size_t>(kSteps));
      EXPECT_EQ(contents.end->status, "finished");
      ASSERT_EQ(contents.clocks.size(), 2u);
      // All collectives of the window's steps, the same on every rank.
      const std::vector<NetworkRecord> networks = NetworksOfSteps(contents);
      ASSERT_EQ(networks.size(), of_rank_0.size());
      ASSERT_FALSE(networks.empty());
      int64_t gathers = 0, exchanges = 0;
      for (const WorkRecord& work : contents.works) {
        gathers += work.kind == WorkKind::kGather;
        exchanges += work.kind == WorkKind::kExchange;
        if (work.stream == 4) {
          EXPECT_NE(work.kind, WorkKind::kFetch);
          EXPECT_NE(work.kind, WorkKind::kOperator);
        }
        // Operators never wait for parts that are under way: what is added up
        // on the device is the network's, too.
        if (work.kind == WorkKind::kReduce) EXPECT_NE(work.stream, 0);
      }
      EXPECT_GT(gathers, 0);
      EXPECT_GT(exchanges, 0);
      for (size_t i = 0; i < networks.size(); ++i) {
        EXPECT_EQ(networks[i].sequence, of_rank_0[i].sequence);
        EXPECT_EQ(networks[i].kind, of_rank_0[i].kind);
      }
    }
  }
}

TEST(RankTrace, NamesTheRankThatWasLate) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run.trace";
  const auto group = ThreadGroup::Create(kRanks);
  group->SetFaults(2, {.delay_ns = 1'000'000});
  std::vector<std::vector<StepReport>> reports(kRanks);
  const auto results = RunTraced(
      group, FindPolicy("cuda"), std::vector<std::string>(kRanks, path),
      [&](RunTrace& trace, int) {
        trace.Finish("finished", "");
        return trace.Merge();
      },
      &reports);
  for (const auto& result : results)
    ASSERT_TRUE(result.ok()) << result.status();
  const auto all = ReadRankTraces(path);
  ASSERT_TRUE(all.ok()) << all.status();
  for (int rank = 0; rank < 2; ++rank) {
    // The records say that it came last to most collectives.
    int64_t late = 0;
    for (const NetworkRecord& network : (*all)[rank].networks) {
      late += network.last_rank == 2;
    }
    EXPECT_GT(late * 2, static_cast<int64_t>((*all)[rank].networks.size()));
    // The steps' reports give it nearly all of the waits for ranks. Its parts
    // are slow too, and count as the transfer.
    double waited = 0, stalled = 0;
    std::vector<double> late_seconds(kRanks);
    for (const StepReport& report : reports[rank]) {
      waited += report.network_wait_seconds;
      stalled += report.stall_seconds;
      EXPECT_GT(report.network_sent_bytes, 0);
      EXPECT_GE(report.network_received_bytes, report.network_bytes);
      for (size_t i = 0; i < report.late_rank_seconds.size(); ++i) {
        late_seconds[i] += report.late_rank_seconds[i];
      }
    }
    EXPECT_GT(late_seconds[2], late_seconds[0] + late_seconds[1]);
    EXPECT_EQ(late_seconds[rank], 0);
    EXPECT_LE(late_seconds[2], waited);
    EXPECT_LE(waited, stalled);
    int64_t recorded_ns = 0;
    for (const ResultRecord& result : (*all)[rank].results) {
      recorded_ns += result.network_wait_ns;
    }
    EXPECT_NEAR(static_cast<double>(recorded_ns), waited * 1e9,
                waited * 1e9 / 100);
  }
  for (const StepReport& report : reports[2]) {
    if (report.late_rank_seconds.size() > 2) {
      EXPECT_EQ(report.late_rank_seconds[2], 0);
    }
  }
}

TEST(RankTrace, StaysInItsPartsWhereTheRunFailed) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run.trace";
  const auto results = RunTraced(
      ThreadGroup::Create(kRanks), FindPolicy("cpu"),
      std::vector<std::string>(kRanks, path), [&](RunTrace& trace, int rank) {
        trace.Finish("failed", absl::StrCat("of rank ", rank));
        return absl::CancelledError("as after a failure");
      });
  for (const auto& result : results) EXPECT_FALSE(result.ok());
  const auto all = ReadRankTraces(path);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), static_cast<size_t>(kRanks));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ((*all)[rank].end->message, absl::StrCat("of rank ", rank));
    EXPECT_FALSE((*all)[rank].truncated);
  }
}

TEST(RankTrace, FailsOnAllRanksWhereOneCannotWrite) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run.trace";
  const auto results =
      RunTraced(ThreadGroup::Create(kRanks), FindPolicy("cpu"),
                {path, "/no/such/directory/run.trace", path},
                [](RunTrace&, int) { return absl::OkStatus(); });
  for (const auto& result : results) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable)
        << result.status();
    EXPECT_THAT(std::string(result.status().message()),
                HasSubstr("/no/such/directory/run.trace.rank-1"));
  }
}

// A part that is gone: nothing is merged, and nothing that is there is lost.
TEST(RankTrace, IsNotMergedByHalves) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run.trace";
  std::vector<absl::Status> merged(kRanks);
  std::vector<std::string> before(kRanks);
  const auto results = RunTraced(
      ThreadGroup::Create(kRanks), FindPolicy("cpu"),
      std::vector<std::string>(kRanks, path), [&](RunTrace& trace, int rank) {
        trace.Finish("finished", "");
        if (rank == 1) std::filesystem::remove(RankFileName(path, rank));
        merged[rank] = trace.Merge();
        return absl::OkStatus();
      });
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(results[rank].ok()) << results[rank].status();
    EXPECT_EQ(merged[rank].code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(std::filesystem::exists(RankFileName(path, 2)));
  const auto all = ReadRankTraces(path);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[1].run->rank, 2);
  EXPECT_EQ((*all)[1].end->status, "finished");
}

}  // namespace
}  // namespace castor::cli
