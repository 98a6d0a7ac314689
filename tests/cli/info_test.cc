// castor info: this machine, and under a launcher the map of all ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/thread_pool.h"
#include "device/comm/mpi/mpirun_for_test.h"
#include "device/topology/share.h"
#include "device/topology/topology.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class InfoTest : public CliTest {
 protected:
  // Output and errors of `mpirun -np RANKS castor info`, which must succeed.
  static std::string OfRanks(int ranks) {
    SetMpirunEnvironment();
    const std::string command = absl::StrCat(
        "mpirun --timeout 60 -np ", ranks, " ",
        std::filesystem::absolute("castor").string(), " info 2>&1");
    FILE* const pipe = popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    size_t got = 0;
    while ((got = fread(buffer, 1, sizeof(buffer), pipe)) > 0) {
      text.append(buffer, got);
    }
    EXPECT_EQ(pclose(pipe), 0) << text;
    return text;
  }
};

TEST_F(InfoTest, AlonePrintsThisMachine) {
  const ProcessResult result = Castor({"info"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto topology = Topology::OfThisMachine();
  ASSERT_TRUE(topology.ok()) << topology.status();
  for (const std::string& part :
       {absl::StrCat("processors  ", AvailableProcessors(), "\n"),
        absl::StrCat("packages ", topology->packages(), ", cores ",
                     topology->cores(), ", processors ",
                     topology->processors()),
        absl::StrCat("bound to ", FormatProcessors(topology->Binding()), "\n"),
        std::string("NUMA nodes  "), std::string("GB/s to the device")}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

TEST_F(InfoTest, TellsAMachineAsJson) {
  const ProcessResult result = Castor({"info", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.out;
  EXPECT_EQ(json["processors"], AvailableProcessors());
  EXPECT_GT(json["memory_bytes"], 1 << 20);
  EXPECT_GT(json["copies"]["to_device_bytes_per_s"], 0);
  EXPECT_EQ(json["gpus"].is_null(), json.contains("why_no_gpu"));
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "2", 1);
  const ProcessResult ranks = Castor({"info", "--json"});
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
  ExpectUserError(ranks);
}

TEST_F(InfoTest, MeasuresARowThatAPlanReads) {
  const ProcessResult result = Castor({"info", "--measure"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json rows = Json::parse(result.out, nullptr, false);
  ASSERT_TRUE(rows.is_object()) << result.out;
  WriteFile(Path("this.json"), result.out);
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"plan",  "--model",
                                     "gpt2",  "--host",
                                     "this",  "--json",
                                     "--set", "memory.placement_policy=cuda",
                                     "--set", "bf16.enabled=false"};
    args.insert(args.end(), more.begin(), more.end());
    return Castor(args);
  };
  const auto seconds = [&](const std::string& file) {
    const ProcessResult planned = plan({"--machine", file});
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    return Json::parse(planned.out, nullptr, false)["predicted_step_seconds"]
        .get<double>();
  };
  const double measured = seconds("this.json");
  // The plan is for a host of these speeds. All is on the device, so products
  // and arrays decide: at a tenth of their rates it takes ten times as long.
  Json slower = rows;
  Json& its = slower["hosts"]["this"]["emulated"];
  for (Json* const rates :
       {&its["arrays"]["gbps"], &its["fp32"]["products"]["gflops"]}) {
    for (Json& rate : *rates) rate = rate.get<double>() / 10;
  }
  Json& peak = its["fp32"]["tflops"];
  peak = peak.get<double>() / 10;
  Json& attention = its["fp32"]["attention_tflops"];
  attention = attention.get<double>() / 10;
  WriteFile(Path("slower.json"), slower.dump());
  EXPECT_NEAR(seconds("slower.json") / measured, 10, 0.5);
  // A row without a type has no time for it.
  slower["hosts"]["this"]["emulated"].erase("bf16");
  WriteFile(Path("fp32.json"), slower.dump());
  const ProcessResult none =
      plan({"--machine", "fp32.json", "--set", "bf16.enabled=true"});
  ExpectUserError(none);
  EXPECT_THAT(none.err, HasSubstr("no rate of products in bf16"));
  ExpectUserError(
      plan({"--machine", "this.json", "--set", "device.type=cuda"}));
  ExpectUserError(Castor({"info", "--measure", "--json"}));
}

TEST_F(InfoTest, UnderMpirunPrintsOneMapOfAllRanks) {
  constexpr int kRanks = 3;
  const std::string text = OfRanks(kRanks);
  EXPECT_THAT(text, StartsWith("3 ranks on 1 machine, started by mpirun (Open "
                               "MPI), connected by MPI\n"));
  EXPECT_THAT(text, Not(HasSubstr("host device")));
  // The rows are those of the division of this machine, which is known here.
  const auto topology = Topology::OfThisMachine();
  ASSERT_TRUE(topology.ok()) << topology.status();
  const auto place = PlaceOfThisProcess(*topology);
  ASSERT_TRUE(place.ok()) << place.status();
  const std::vector<RankShare> shares =
      DivideMachines(std::vector<Place>(kRanks, *place));
  std::vector<std::string> rows;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() >= 3 && words[0] == std::to_string(rows.size())) {
      rows.push_back(words[1]);
    }
  }
  ASSERT_EQ(rows.size(), shares.size()) << text;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(rows[rank], FormatProcessors(shares[rank].processors)) << text;
  }
  EXPECT_THAT(text, HasSubstr(absl::StrCat("each rank: ", shares[0].threads,
                                           " thread")));
}

TEST_F(InfoTest, RefusesVariablesThatContradictEachOther) {
  setenv("RANK", "7", 1);
  setenv("WORLD_SIZE", "4", 1);
  const ProcessResult result = Castor({"info"});
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("RANK=7"));
}

}  // namespace
}  // namespace castor::testing
