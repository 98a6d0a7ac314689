// kill -9 at random instants of training and of saving: whatever happened, a
// resumed run ends with the bits of one that was left alone. Each resumption
// has another policy, budget, chunk size and number of threads.
//
// CASTOR_KILLS: how many (24), CASTOR_RANK_KILLS: how many of one rank of
// several (5), CASTOR_KILL_SEED: of the random numbers (1).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "run/checkpoint/checkpoint_dir.h"
#include "tests/cli/cli_test_base.h"
#include "tests/from_environment.h"
#include "tracer/trace_file.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KilledRun : public CliTest {
 protected:
  KilledRun() : seed_(FromEnvironment("CASTOR_KILL_SEED", 1)), random_(seed_) {
    config_ = SmallConfig();
    config_["steps"] = 12;
    // A file to be written, forced to disk and renamed after every step.
    config_["checkpoint"] = {{"dir", "out"}, {"save_interval", 1}, {"keep", 2}};
  }

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % n); }

  // Placement at random, within what is admitted.
  Json Placed() {
    Json config = config_;
    const char* const chunks[] = {"auto", "2KiB", "4KiB", "64KiB"};
    const char* const chunk = chunks[Below(4)];
    const char* const policies[] = {"cuda", "cpu", "auto"};
    const char* const policy = policies[Below(3)];
    config["memory"] = {{"placement_policy", policy},
                        {"chunk_size", chunk},
                        {"prefetch", Below(2) == 0}};
    config["device"]["threads"] = 1 + Below(2);
    const std::string key = std::string(policy) + chunk;
    if (smallest_.count(key) == 0) {
      Json once = config;
      once["steps"] = 1;
      once["checkpoint"] = false;
      smallest_[key] = Summary(once)["smallest_device_budget_bytes"];
    }
    config["memory"]["device_memory"] = smallest_[key] + 4096 * Below(30);
    return config;
  }

  // All files that bear a checkpoint's name are whole, at every instant.
  void ExpectWholeCheckpoints() const {
    if (!Exists("out")) return;
    const CheckpointDir dir(Path("out"));
    const auto entries = dir.List();
    ASSERT_TRUE(entries.ok()) << entries.status();
    std::vector<std::string> skipped;
    if (!entries->empty()) {
      const auto latest = dir.FindLatest(&skipped);
      EXPECT_TRUE(latest.ok()) << latest.status();
    }
    EXPECT_THAT(skipped, IsEmpty());
  }

  int64_t Temporaries() const {
    int64_t count = 0;
    for (const std::string& name : List("out")) {
      count += name.find(".tmp-") != std::string::npos;
    }
    return count;
  }

  bool HasCheckpoint() const {
    for (const std::string& name : List("out")) {
      if (StepOfCheckpointName(name) >= 0) return true;
    }
    return false;
  }

  // Returns the number of operators, work and waits in the trace of a killed
  // run; it can be read whenever the run was killed, except in the instant of
  // its first line.
  int64_t TracedEvents() const {
    if (!Exists("run.trace")) return 0;
    const auto trace = ReadTraceFile(Path("run.trace"));
    if (!trace.ok()) {
      EXPECT_THAT(std::string(trace.status().message()),
                  HasSubstr("no complete first line"));
      return 0;
    }
    EXPECT_FALSE(trace->end.has_value() && trace->results.empty());
    return static_cast<int64_t>(trace->issues.size() + trace->works.size() +
                                trace->waits.size());
  }

  const int64_t seed_;
  std::mt19937_64 random_;
  Json config_;
  std::map<std::string, int64_t> smallest_;
};

TEST_F(KilledRun, GoesOnToTheBitsOfAnUndisturbedOne) {
  const int64_t kills = FromEnvironment("CASTOR_KILLS", 24);
  const auto start = std::chrono::steady_clock::now();
  const Json whole = Summary(config_);
  // Follows the machine's load, so that most runs are killed before their end.
  int64_t window_us = std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::steady_clock::now() - start)
                          .count();
  const std::string expected = whole["parameters_sha256"];
  std::filesystem::remove_all(Path("out"));

  int64_t traced = 0;
  int64_t killed = 0, while_saving = 0, before_any = 0, ended = 0;
  while (killed < kills) {
    const bool resume = HasCheckpoint();
    before_any += !resume;
    WriteConfig(Placed());
    std::vector<std::string> args = {"train",         "run.json", "--summary",
                                     "summary.json",  "--trace",  "run.trace",
                                     "--trace-steps", "1:99"};
    std::filesystem::remove(Path("run.trace"));
    if (resume) args.insert(args.end(), {"--resume", "latest"});
    CastorProcess process(args, directory());
    std::this_thread::sleep_for(std::chrono::microseconds(Below(window_us)));
    // Half of them wait for the next checkpoint that is being written.
    if (Below(2) == 0) {
      for (int poll = 0; poll < 500 && Temporaries() == 0; ++poll) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    process.Signal(SIGKILL);
    const ProcessResult result = process.Wait();
    ExpectWholeCheckpoints();
    if (result.signal == SIGKILL) {
      ++killed;
      window_us += window_us / 16;
      while_saving += Temporaries() > 0;
      traced += TracedEvents();
      continue;
    }
    ++ended;
    window_us -= window_us / 4;
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(Json::parse(ReadFile(Path("summary.json")))["parameters_sha256"],
              expected)
        << "seed " << seed_ << ", kill " << killed;
    std::filesystem::remove_all(Path("out"));
  }
  std::printf(
      "seed %ld: %ld kills, %ld of them while saving, %ld runs from "
      "the start, %ld reached the end\n",
      seed_, killed, while_saving, before_any, ended);
  EXPECT_GT(traced, 0);

  std::vector<std::string> args;
  if (HasCheckpoint()) args = {"--resume", "latest"};
  EXPECT_EQ(Summary(Placed(), args)["parameters_sha256"], expected)
      << "seed " << seed_;
  EXPECT_EQ(Temporaries(), 0);
}

// One rank of several, at a random moment: the others end by themselves, what
// is in the directory is whole, and another number of ranks goes on.
TEST_F(KilledRun, OfSeveralRanksGoesOnOnAnotherNumber) {
  const int64_t kills = FromEnvironment("CASTOR_RANK_KILLS", 5);
  config_["train_batch_size"] = 8;  // four micro batches a step
  config_.erase("gradient_accumulation_steps");
  const auto start = std::chrono::steady_clock::now();
  const Json whole = Summary(2, config_);
  // Follows the machine's load, so that most runs are killed before their end.
  int64_t window_us = std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::steady_clock::now() - start)
                          .count();
  std::filesystem::remove_all(Path("out"));

  int64_t killed = 0, while_saving = 0, ended = 0;
  while (killed < kills && ended < 20) {
    const char* const policies[] = {"cuda", "cpu", "auto"};
    const char* const chunks[] = {"auto", "2KiB", "64KiB"};
    config_["memory"] = {{"placement_policy", policies[Below(3)]},
                         {"chunk_size", chunks[Below(3)]}};
    WriteConfig(config_);
    std::vector<std::string> args = {"train", "run.json", "--summary",
                                     "summary.json"};
    if (HasCheckpoint()) args.insert(args.end(), {"--resume", "latest"});
    const int ranks = Below(2) == 0 ? 2 : 4;
    CastorProcess process(args, directory(), ranks);
    // Starting takes the better part of it.
    std::this_thread::sleep_for(
        std::chrono::microseconds(window_us / 3 + Below(window_us / 2)));
    const int polls = Below(2) == 0 ? 500 : 0;
    for (int poll = 0; poll < polls && Temporaries() == 0; ++poll) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    const auto pids = process.RankPids();
    const auto victim = pids.find(static_cast<int>(Below(ranks)));
    if (victim != pids.end()) kill(victim->second, SIGKILL);
    const ProcessResult result = process.Wait();
    for (const auto& [rank, pid] : pids) {
      for (int i = 0; kill(pid, 0) == 0; ++i) {
        ASSERT_LT(i, 1000) << "rank " << rank << " lives on: " << result.err;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    ExpectWholeCheckpoints();
    if (result.exit_code != 0) {
      ++killed;
      window_us += window_us / 16;
      while_saving += Temporaries() > 0;
      continue;
    }
    ++ended;
    window_us -= window_us / 4;
    EXPECT_EQ(Json::parse(ReadFile(Path("summary.json")))["parameters_sha256"],
              whole["parameters_sha256"])
        << "seed " << seed_ << ", kill " << killed;
    std::filesystem::remove_all(Path("out"));
  }
  std::printf(
      "seed %ld: %ld ranks killed, %ld of them while saving, %ld runs "
      "reached the end\n",
      seed_, killed, while_saving, ended);
  EXPECT_EQ(killed, kills);
  config_.erase("memory");
  std::vector<std::string> args;
  if (HasCheckpoint()) args = {"--resume", "latest"};
  EXPECT_EQ(Summary(config_, args)["parameters_sha256"],
            whole["parameters_sha256"])
      << "seed " << seed_;
  EXPECT_EQ(Temporaries(), 0);
}

}  // namespace
}  // namespace castor::testing
