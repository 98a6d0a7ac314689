// castor train on several ranks, as processes under a real mpirun: the curve
// and the bits of one rank, one message for all, an end for all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/cli_test_base.h"
#include "tracer/rank_traces.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SeveralRanks : public CliTest {
 protected:
  // Four micro batches a step: enough for four ranks.
  static Json Config() {
    Json config = SmallConfig();
    config["train_batch_size"] = 8;
    config.erase("gradient_accumulation_steps");
    config["checkpoint"] = false;
    config["data"]["validation_fraction"] = 0.2;
    config["eval_interval"] = 3;
    config["eval_batches"] = 3;  // not as many as ranks
    return config;
  }
};

// Castor's own; mpirun has others.
std::vector<std::string> Messages(const ProcessResult& result) {
  std::vector<std::string> messages;
  size_t begin = 0;
  while (begin < result.err.size()) {
    const size_t end =
        std::min(result.err.find('\n', begin), result.err.size());
    const std::string line = result.err.substr(begin, end - begin);
    if (line.rfind("castor: ", 0) == 0) messages.push_back(line);
    begin = end + 1;
  }
  return messages;
}

// Returns true if the process is gone by then.
bool EndsWithin10s(pid_t pid) {
  for (int i = 0; i < 1000; ++i) {
    if (kill(pid, 0) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(SeveralRanks, GiveTheCurveAndTheBitsOfOneRank) {
  const Json one = Summary(Config());
  for (const int ranks : {2, 4}) {
    Json config = Config();
    if (ranks == 2) config["memory"] = {{"placement_policy", "cpu"}};
    const Json several = Summary(ranks, config);
    EXPECT_EQ(several["losses"], one["losses"]) << ranks;
    EXPECT_EQ(several["evaluations"], one["evaluations"]) << ranks;
    EXPECT_EQ(several["parameters_sha256"], one["parameters_sha256"]) << ranks;
    EXPECT_LT(several["device_peak_bytes"], one["device_peak_bytes"]) << ranks;
  }
}

TEST_F(SeveralRanks, TraceAndReportEachOne) {
  const Json summary = Summary(3,
                               [] {
                                 Json config = Config();
                                 config["train_batch_size"] = 6;
                                 return config;
                               }(),
                               {"--trace", "run.trace"});
  EXPECT_EQ(summary["world_size"], 3);
  ASSERT_EQ(summary["ranks"].size(), 3u);
  int64_t peak = 0, sent = 0, received = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const Json& own = summary["ranks"][rank];
    EXPECT_EQ(own["rank"], rank);
    EXPECT_FALSE(own["host"].get<std::string>().empty());
    EXPECT_EQ(own["network_wait_seconds_by_late_rank"].size(), 3u);
    peak = std::max(peak, own["device_peak_bytes"].get<int64_t>());
    sent += own["network_sent_bytes_per_step"].get<int64_t>();
    received += own["network_received_bytes_per_step"].get<int64_t>();
  }
  EXPECT_EQ(summary["device_peak_bytes"], peak);
  EXPECT_GT(sent, 0);
  EXPECT_EQ(sent, received);
  EXPECT_EQ(summary["network_bytes_per_step"], sent);
  const auto traces = ReadRanksOfFile(Path("run.trace"));
  ASSERT_TRUE(traces.ok()) << traces.status();
  ASSERT_EQ(traces->size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    const TraceContents& trace = (*traces)[rank];
    EXPECT_EQ(trace.run->rank, rank);
    EXPECT_EQ(trace.end->status, "finished");
    EXPECT_FALSE(trace.networks.empty());
    EXPECT_FALSE(std::filesystem::exists(
        Path("run.trace.rank-" + std::to_string(rank))));
  }
}

TEST_F(SeveralRanks, PrintWhatOneRankPrints) {
  const ProcessResult result = TrainOnRanks(3, [] {
    Json config = Config();
    config["train_batch_size"] = 6;
    return config;
  }());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  size_t count = 0;
  for (size_t at = result.out.find("\nstep 2/"); at != std::string::npos;
       at = result.out.find("\nstep 2/", at + 1)) {
    ++count;
  }
  EXPECT_EQ(count, 1u) << result.out;
}

TEST_F(SeveralRanks, RefuseWithOneMessageForAll) {
  struct Case {
    Json config;
    std::string says;
  };
  Json batch = Config(), small = Config();
  batch["gradient_accumulation_steps"] = 4;
  small["memory"] = {{"device_memory", 4096}};
  for (const Case& c :
       {Case{batch, "x world size 3"}, Case{small, "does not fit"}}) {
    Json config = c.config;
    if (config == small) config["train_batch_size"] = 6;
    const ProcessResult result = TrainOnRanks(3, config);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(Messages(result), ElementsAre(HasSubstr(c.says)));
    EXPECT_THAT(result.err, Not(HasSubstr("rank 0:")));
  }
}

TEST_F(SeveralRanks, NameTheRankThatAloneFindsSomethingWrong) {
  std::string text = ReadFile(Path("text.txt"));
  std::reverse(text.begin(), text.end());
  WriteFile(Path("other.txt"), text);
  // Settings that rank 1 alone is given, and the messages about them.
  const struct {
    const char* setting;
    const char* says;
  } kCases[] = {
      {"steps=0", "rank 1: --set steps=0: steps: "},
      {"data.train=none.txt", "rank 1: data.train: "},
      {"data.train=other.txt", "rank 1: data.train is "},
      {"seed=77", "rank 1: seed is 77, on rank 0 7"},
  };
  for (const auto& c : kCases) {
    const ProcessResult result =
        TrainOnRanks(2, Config(), {},
                     std::string("if [ $OMPI_COMM_WORLD_RANK = 1 ]; then exec "
                                 "\"$@\" --set ") +
                         c.setting + "; else exec \"$@\"; fi");
    EXPECT_EQ(result.exit_code, 2) << c.setting;
    EXPECT_THAT(Messages(result), ElementsAre(HasSubstr(c.says)));
  }
}

TEST_F(SeveralRanks, ResumeFromOneCheckpointOnly) {
  Json config = Config();
  config["checkpoint"] = {{"dir", "out"}, {"save_interval", 3}, {"keep", 9}};
  Summary(config);
  const ProcessResult result = TrainOnRanks(
      2, config, {},
      "exec \"$@\" --resume out/step-0000000$((3 + 3 * OMPI_COMM_WORLD_RANK))"
      ".castor");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(Messages(result),
              ElementsAre(AllOf(HasSubstr("rank 1: --resume is step 6, "),
                                HasSubstr("on rank 0 step 3, "))));
}

TEST_F(SeveralRanks, SayOnceThatAnOptionIsUnknown) {
  const ProcessResult result = TrainOnRanks(2, Config(), {"--bogus"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(Messages(result), ElementsAre(HasSubstr("--bogus")));
}

// Rank 0 does what one process has to do, and a plan is of the ranks that there
// are.
TEST_F(SeveralRanks, ExportAndPlanOnce) {
  Json config = Config();
  config["checkpoint"] = {{"dir", "out"}};
  (void)Summary(2, config);
  const ProcessResult exported =
      RunCastor({"export", "out", "hf"}, directory(), 2);
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.out, StartsWith("exported out/step-00000006.castor"));
  EXPECT_EQ(exported.out.find("exported", 1), std::string::npos);
  const ProcessResult again =
      RunCastor({"export", "none", "hf2"}, directory(), 2);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(Messages(again), ElementsAre(HasSubstr("none")));
  const ProcessResult two = RunCastor({"plan", "run.json"}, directory(), 2);
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(two.out, Castor({"plan", "run.json", "--world-size", "2"}).out);
  EXPECT_NE(two.out, Castor({"plan", "run.json"}).out);
}

// The error comes after the traces are merged.
TEST_F(SeveralRanks, ReportASummaryThatCannotBeWritten) {
  Json config = Config();
  config["steps"] = 100'000;
  WriteConfig(config);
  std::filesystem::create_directory(Path("figures"));
  CastorProcess process({"train", "run.json", "--trace", "run.trace",
                         "--summary", "figures/summary.json"},
                        directory(), 2);
  ASSERT_TRUE(process.WaitForOutput("\nstep 5/"));
  std::filesystem::remove_all(Path("figures"));
  kill(process.RankPids().at(1), SIGTERM);
  const ProcessResult result = process.Wait();
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(Messages(result), ElementsAre(HasSubstr("figures/summary.json")));
  EXPECT_THAT(result.err, Not(HasSubstr("signal")));
  const auto traces = ReadRanksOfFile(Path("run.trace"));
  ASSERT_TRUE(traces.ok()) << traces.status();
  EXPECT_EQ(traces->size(), 2u);
}

TEST_F(SeveralRanks, AllEndWhenOneIsKilled) {
  Json config = Config();
  config["steps"] = 100'000;
  WriteConfig(config);
  for (const int victim : {1, 0}) {
    CastorProcess process({"train", "run.json", "--trace", "run.trace"},
                          directory(), 2);
    ASSERT_TRUE(process.WaitForOutput("\nstep 5/"));
    const auto pids = process.RankPids();
    ASSERT_EQ(pids.size(), 2u);
    kill(pids.at(victim), SIGKILL);
    const ProcessResult result = process.Wait();
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, AllOf(HasSubstr("rank " + std::to_string(victim)),
                                  HasSubstr("died")));
    for (const auto& [rank, pid] : pids) {
      EXPECT_TRUE(EndsWithin10s(pid)) << "rank " << rank;
    }
    // Each rank's trace is there up to its end.
    const auto traces = ReadRankTraces(Path("run.trace"));
    ASSERT_TRUE(traces.ok()) << traces.status();
    ASSERT_EQ(traces->size(), 2u);
    for (const TraceContents& trace : *traces) {
      EXPECT_GE(trace.results.size(), 2u) << trace.run->rank;
    }
  }
}

// Its files may not grow any more, as on a disk that is full.
TEST_F(SeveralRanks, AllEndWhenOnesDiskIsFull) {
  Json config = Config();
  config["steps"] = 100'000;
  config["checkpoint"] = {{"dir", "out"}, {"save_interval", 10}, {"keep", 2}};
  WriteConfig(config);
  CastorProcess process({"train", "run.json"}, directory(), 2);
  ASSERT_TRUE(process.WaitForOutput("\nstep 15/"));
  const auto pids = process.RankPids();
  ASSERT_EQ(pids.size(), 2u);
  const rlimit full = {.rlim_cur = 4096, .rlim_max = 4096};
  ASSERT_EQ(prlimit(pids.at(1), RLIMIT_FSIZE, &full, nullptr), 0);
  const ProcessResult result = process.Wait();
  EXPECT_NE(result.exit_code, 0);
  // Both ranks agree on it three times.
  const auto reason = AllOf(HasSubstr("rank 1"), HasSubstr("too large"));
  EXPECT_THAT(Messages(result),
              ElementsAre(AllOf(HasSubstr("training goes on"), reason),
                          AllOf(HasSubstr("training goes on"), reason),
                          AllOf(HasSubstr("checkpoint.on_error"), reason)));
  for (const auto& [rank, pid] : pids) {
    EXPECT_TRUE(EndsWithin10s(pid)) << "rank " << rank;
  }
  // The checkpoints that were saved before are there, whole, and nothing else
  // is.
  std::vector<std::string> saved = List("out");
  // Left by rank 0 if the launcher was faster to end it.
  std::erase(saved, "castor.lock");
  ASSERT_FALSE(saved.empty());
  for (const std::string& name : saved) {
    EXPECT_EQ(name.rfind("step-", 0), 0u) << name;
  }
  const int64_t step = std::stoll(saved.back().substr(5));
  EXPECT_EQ(step % 10, 0);
  config["steps"] = step + 1;
  const ProcessResult resumed = TrainOnRanks(2, config, {"--resume", "latest"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("at step " + std::to_string(step)));
}

TEST_F(SeveralRanks, StopAfterTheSameStepWhenOneIsAskedTo) {
  Json config = Config();
  config["steps"] = 100'000;
  WriteConfig(config);
  CastorProcess process({"train", "run.json", "--summary", "summary.json"},
                        directory(), 2);
  ASSERT_TRUE(process.WaitForOutput("\nstep 5/"));
  kill(process.RankPids().at(1), SIGTERM);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  const Json summary = Json::parse(ReadFile(Path("summary.json")));
  EXPECT_THAT(result.out,
              HasSubstr("interrupted after step " + summary["steps"].dump()));
  // The bits are those of one rank that made so many steps.
  config["steps"] = summary["steps"];
  EXPECT_EQ(Summary(config)["parameters_sha256"], summary["parameters_sha256"]);
}

TEST_F(SeveralRanks, ReportTheFirstThatHangs) {
  // The rank that speaks for all says nothing then: the next does.
  Json config = Config();
  config["steps"] = 100'000;
  config["network"] = {{"timeout_seconds", 2}};
  WriteConfig(config);
  CastorProcess process({"train", "run.json"}, directory(), 2);
  ASSERT_TRUE(process.WaitForOutput("\nstep 5/"));
  const pid_t hung = process.RankPids().at(0);
  kill(hung, SIGSTOP);
  const ProcessResult result = process.Wait();
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("castor: rank 1 of 2, in "),
                                AnyOf(HasSubstr("rank 0 did not join rank 1"),
                                      HasSubstr("through to rank 0 for 2 s"),
                                      HasSubstr("through from rank 0 for 2 s")),
                                HasSubstr("network.timeout_seconds")));
  EXPECT_TRUE(EndsWithin10s(hung));
}

TEST_F(SeveralRanks, ReportOneThatHangs) {
  Json config = Config();
  config["steps"] = 100'000;
  config["network"] = {{"timeout_seconds", 2}};
  WriteConfig(config);
  CastorProcess process({"train", "run.json"}, directory(), 2);
  ASSERT_TRUE(process.WaitForOutput("\nstep 5/"));
  const pid_t hung = process.RankPids().at(1);
  kill(hung, SIGSTOP);
  const ProcessResult result = process.Wait();
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(AnyOf(HasSubstr("rank 1 did not join rank 0"),
                                      HasSubstr("through to rank 1 for 2 s"),
                                      HasSubstr("through from rank 1 for 2 s")),
                                HasSubstr("last collective of each rank"),
                                HasSubstr("network.timeout_seconds")));
  EXPECT_TRUE(EndsWithin10s(hung));
}

}  // namespace
}  // namespace castor::testing
