// castor resize: another budget for a run that goes on, which comes to the same
// bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Resized : public CliTest, public ::testing::WithParamInterface<int> {
 protected:
  Resized() { setenv("XDG_RUNTIME_DIR", sockets_.path().c_str(), 1); }
  ~Resized() override { unsetenv("XDG_RUNTIME_DIR"); }

  ProcessResult Resize(pid_t pid, const std::string& size) const {
    // The other process writes to files in the run's directory.
    return RunCastor({"resize", std::to_string(pid), "--device-memory", size},
                     elsewhere_.path());
  }

  // Interrupts the run at one of its processes, and waits for its end.
  static ProcessResult Interrupt(CastorProcess& process, pid_t pid) {
    if (GetParam() == 0) {
      process.Signal(SIGINT);
    } else {
      kill(pid, SIGINT);
    }
    ProcessResult result = process.Wait();
    EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.err << result.out;
    return result;
  }

  // The trace has three changes of the budget by each rank, asked for by this.
  void ExpectThreeInTrace(const std::string& asker) const {
    const std::string record = "\"asked_by\":\"" + asker + "\"";
    const std::string trace = ReadFile(Path("run.trace"));
    int found = 0;
    for (size_t at = trace.find(record); at != std::string::npos;
         at = trace.find(record, at + 1)) {
      ++found;
    }
    EXPECT_EQ(found, 3 * std::max(1, GetParam()));
  }

  const TemporaryDirectory elsewhere_;
  // A socket's path has to be short.
  const int short_paths_ = setenv("TEST_TMPDIR", "/tmp", /*overwrite=*/1);
  const TemporaryDirectory sockets_;
};

TEST_P(Resized, ARunGoesOnToTheSameBits) {
  const int ranks = GetParam();
  Json config = SmallConfig();
  config["checkpoint"] = {{"dir", "out"}};  // saves at the end only
  config["steps"] = 100000;
  config["memory"] = {{"device_memory", "4MiB"}};
  WriteConfig(config);
  CastorProcess process({"train", "run.json", "--summary", "summary.json",
                         "--trace", "run.trace"},
                        directory(), ranks);
  ASSERT_TRUE(process.WaitForOutput("\nstep 3/")) << process.Wait().err;
  // Any rank will do.
  const pid_t pid = ranks == 0 ? process.pid() : process.RankPids().at(1);

  const ProcessResult refused = Resize(pid, "10KiB");
  ExpectUserError(refused);
  EXPECT_THAT(refused.err, HasSubstr("the smallest memory.device_memory that "
                                     "would do is "));
  EXPECT_THAT(refused.err, HasSubstr("the run goes on with 4.00 MiB"));
  const std::string words = "that would do is ";
  const int64_t least =
      std::stoll(refused.err.substr(refused.err.find(words) + words.size()));
  // To the byte.
  ExpectUserError(Resize(pid, std::to_string(least - 1)));
  const ProcessResult beyond = Resize(pid, "100TiB");
  ExpectUserError(beyond);
  EXPECT_THAT(beyond.err, HasSubstr("ask for less, or for all that is of use"));
  for (const std::string& size :
       {std::to_string(least), std::string("1MiB"), std::string("8MiB")}) {
    const ProcessResult resized = Resize(pid, size);
    ASSERT_EQ(resized.exit_code, 0) << resized.err;
    EXPECT_THAT(resized.out, ContainsRegex("^device memory [^\n]*predicted "
                                           "step: [^\n]*\n$"));
  }
  // Steps go on with it.
  ASSERT_TRUE(process.WaitForOutput("resized: device memory 8.00 MiB"));
  const ProcessResult result = Interrupt(process, pid);
  EXPECT_THAT(result.out, HasSubstr("not resized: this run does not fit"));
  EXPECT_THAT(Resize(pid, "1MiB").err,
              HasSubstr("no castor train of this user listens as process"));
  const Json summary = Json::parse(ReadFile(Path("summary.json")));
  EXPECT_EQ(summary["resizes"], 3);
  ExpectThreeInTrace("castor resize");
  EXPECT_EQ(summary["device_budget_bytes"], 8 << 20);

  std::filesystem::remove_all(Path("out"));
  config["steps"] = summary["steps"];
  config["memory"] = {{"device_memory", "unlimited"}};
  const Json whole = Summary(ranks, config);
  EXPECT_EQ(summary["losses"], whole["losses"]);
  EXPECT_EQ(summary["parameters_sha256"], whole["parameters_sha256"]);
  EXPECT_FALSE(whole.contains("resizes"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Resized, ::testing::Values(0, 2));

// "follow": the run has what others leave of the emulated card.
TEST_P(Resized, ARunFollowsWhatOthersLeaveToTheSameBits) {
  const int ranks = GetParam();
  Json config = SmallConfig();
  config["checkpoint"] = {{"dir", "out"}};
  config["steps"] = 100000;
  WriteConfig(config);
  const Json plan =
      Json::parse(Castor({"plan", "run.json", "--json", "--world-size",
                          std::to_string(std::max(1, ranks))})
                      .out,
                  nullptr, false);
  const int64_t all = plan["unmanaged_device_bytes"];
  const int64_t least = plan["smallest_device_budget_bytes"];
  const int64_t some = all - (all - least) / 4;
  const int64_t floor = least + (all - least) / 4;
  // A sixteenth of the card stays free.
  const int64_t card = 16 * all;
  config["device"]["memory"] = card;
  config["device"]["memory_dir"] = "card";
  config["memory"] = {{"device_memory", "follow"},
                      {"device_memory_floor", floor}};
  WriteConfig(config);
  // The ranks' cards are folders; that of the last one is crowded.
  const std::string another =
      Path("card/" + std::to_string(ranks == 0 ? 0 : ranks - 1) + "/another");
  CastorProcess process({"train", "run.json", "--summary", "summary.json",
                         "--trace", "run.trace"},
                        directory(), ranks);
  ASSERT_TRUE(process.WaitForOutput("\nstep 3/")) << process.Wait().err;
  const auto take = [&](int64_t bytes) {
    std::ofstream(another, std::ios::app).flush();
    std::filesystem::resize_file(another, bytes);
  };
  const auto is = [](int64_t bytes) {
    return "(" + std::to_string(bytes) + " bytes), predicted peak ";
  };
  take(card - all - some);
  ASSERT_TRUE(process.WaitForOutput(is(some)));
  take(card);
  ASSERT_TRUE(process.WaitForOutput(is(floor)));
  ASSERT_TRUE(
      process.WaitForOutput("memory.device_memory_floor: others leave "
                            "room for "));
  std::filesystem::remove(another);
  ASSERT_TRUE(process.WaitForOutput("grown: device memory "));
  ASSERT_TRUE(process.WaitForOutput(is(all)));
  const pid_t pid = ranks == 0 ? process.pid() : process.RankPids().at(1);
  const ProcessResult resized = Resize(pid, "2MiB");
  ExpectUserError(resized);
  EXPECT_THAT(resized.err, HasSubstr("\"follow\""));
  Interrupt(process, pid);
  const Json summary = Json::parse(ReadFile(Path("summary.json")));
  EXPECT_EQ(summary["resizes"], 3);
  ExpectThreeInTrace("follow");
  EXPECT_FALSE(std::filesystem::exists(Path("card/0/another")));
  EXPECT_TRUE(std::filesystem::is_empty(Path("card/0")));

  std::filesystem::remove_all(Path("out"));
  config["steps"] = summary["steps"];
  config["device"].erase("memory");
  config["device"].erase("memory_dir");
  config["memory"] = {{"device_memory", "unlimited"}};
  const Json whole = Summary(ranks, config);
  EXPECT_EQ(summary["parameters_sha256"], whole["parameters_sha256"]);
}

TEST_F(CliTest, RefusesAFloorThatTheCardDoesNotHave) {
  Json config = SmallConfig();
  config["device"]["memory"] = "8MiB";
  config["device"]["memory_dir"] = "card";
  config["memory"] = {{"device_memory", "follow"},
                      {"device_memory_floor", "7MiB"}};
  WriteConfig(config);
  std::filesystem::create_directories(Path("card/0"));
  std::ofstream(Path("card/0/another")).flush();
  std::filesystem::resize_file(Path("card/0/another"), 8 << 20);
  const ProcessResult result = Castor({"train", "run.json"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("of the emulated card's 8.00 MiB"));
}

TEST_F(CliTest, ResizeSaysWhatIsWrongWithItsArguments) {
  for (const auto& [args, words] :
       {std::pair<std::vector<std::string>, std::string>{
            {"resize", "1", "--device-memory", "much"}, "--device-memory"},
        {{"resize", "1", "--device-memory", "0"}, "more than 0 bytes"},
        {{"resize", "1"}, "--device-memory is required"},
        {{"resize", "-4", "--device-memory", "1GiB"}, "PID"}}) {
    const ProcessResult result = Castor(args);
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr(words));
  }
}

}  // namespace
}  // namespace castor::testing
