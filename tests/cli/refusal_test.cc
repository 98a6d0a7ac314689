// Budgets that are too small: refused before step 1, with the figures; the
// smallest that is named works, and nothing smaller does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

class Refused : public CliTest,
                public ::testing::WithParamInterface<const char*> {
 protected:
  Json Config(int64_t device_memory) const {
    Json config = SmallConfig();
    config["memory"] = {{"placement_policy", GetParam()},
                        {"device_memory", device_memory}};
    return config;
  }
  ProcessResult TrainWith(int64_t device_memory) const {
    return Train(Config(device_memory), {"--summary", "summary.json"});
  }
  Json ReadSummary() const {
    return Json::parse(ReadFile(Path("summary.json")));
  }
};

TEST_P(Refused, NamesTheSmallestBudgetWhichWorksAndIsTheSmallest) {
  const ProcessResult refused = TrainWith(40 * 1024);
  ExpectUserError(refused);
  EXPECT_EQ(refused.out, "");
  EXPECT_FALSE(Exists("out"));
  const Json figures = ReadSummary();
  ASSERT_TRUE(figures["refused"].is_object());
  const Json& why = figures["refused"];
  EXPECT_EQ(why["tier"], "device");
  const std::string op = why["operator"];
  const int64_t peak = why["peak_bytes"];
  const int64_t resident = why["resident_bytes"];
  const int64_t smallest = why["smallest_device_budget_bytes"];
  EXPECT_EQ(figures["steps"], 0);
  EXPECT_EQ(figures["device_budget_bytes"], 40 * 1024);
  EXPECT_EQ(figures["smallest_device_budget_bytes"], smallest);
  EXPECT_GT(peak, 0);
  EXPECT_GT(resident, 0);
  EXPECT_LE(peak + resident, smallest);
  EXPECT_THAT(refused.err, HasSubstr("\"" + op + "\""));
  EXPECT_THAT(refused.err, HasSubstr(std::to_string(peak) + " bytes"));
  EXPECT_THAT(refused.err, HasSubstr(std::to_string(resident) + " bytes"));
  EXPECT_THAT(refused.err, HasSubstr(std::to_string(smallest) + " bytes"));

  // One unit of the arena less is too little.
  const ProcessResult less = TrainWith(smallest - 256);
  ExpectUserError(less);
  EXPECT_FALSE(Exists("out"));
  EXPECT_EQ(ReadSummary()["refused"]["smallest_device_budget_bytes"], smallest);

  const ProcessResult works = TrainWith(smallest);
  EXPECT_EQ(works.exit_code, 0) << works.err;
  const Json trained = ReadSummary();
  EXPECT_FALSE(trained.contains("refused"));
  EXPECT_EQ(trained["smallest_device_budget_bytes"], smallest);
  EXPECT_LE(trained["device_peak_bytes"], smallest);
  EXPECT_EQ(trained["steps"], 6);

  // `castor plan` says the same without training.
  WriteConfig(Config(smallest));
  const ProcessResult fits = Castor({"plan", "run.json"});
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_THAT(fits.out, HasSubstr("it fits"));
  WriteConfig(Config(smallest - 256));
  const ProcessResult fits_not = Castor({"plan", "run.json"});
  ExpectUserError(fits_not);
  EXPECT_EQ(fits_not.err, less.err);
}

TEST_P(Refused, AtNoBytesAtAll) {
  ExpectUserError(TrainWith(0));
  EXPECT_TRUE(ReadSummary().contains("refused"));
}

INSTANTIATE_TEST_SUITE_P(Policies, Refused,
                         ::testing::Values("cuda", "cpu", "auto"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class PlanForAGpu : public CliTest {};

// The machine need not have a GPU, nor the build the GPU's kernels.
TEST_F(PlanForAGpu, SaysWhatFitsAndWhatDoesNot) {
  Json config = SmallConfig();
  config["device"] = {{"type", "cuda"}};
  config["memory"] = {{"device_memory", 1000}};
  WriteConfig(config);
  const ProcessResult refused = Castor({"plan", "run.json"});
  ExpectUserError(refused);
  const std::string marker = "memory.device_memory that would do is ";
  const size_t at = refused.err.find(marker);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const int64_t smallest = std::stoll(refused.err.substr(at + marker.size()));
  config["memory"]["device_memory"] = smallest;
  WriteConfig(config);
  const ProcessResult fits = Castor({"plan", "run.json"});
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_THAT(fits.out, HasSubstr("it fits"));
  config["memory"]["device_memory"] = smallest - 256;
  WriteConfig(config);
  ExpectUserError(Castor({"plan", "run.json"}));
}

class RefusedMachine : public CliTest {
 protected:
  // Trains on a machine of which the environment says that it has `memory`.
  ProcessResult TrainWith(const std::string& memory) const {
    setenv("CASTOR_MACHINE_MEMORY", memory.c_str(), 1);
    ProcessResult result = Train(SmallConfig());
    unsetenv("CASTOR_MACHINE_MEMORY");
    return result;
  }
};

TEST_F(RefusedMachine, IsTheOneThatTheEnvironmentNames) {
  const ProcessResult small = TrainWith("32KiB");
  ExpectUserError(small);
  EXPECT_THAT(small.err, HasSubstr("this run does not fit the machine"));
  EXPECT_FALSE(Exists("out"));
  const ProcessResult none = TrainWith("plenty");
  ExpectUserError(none);
  EXPECT_THAT(none.err, HasSubstr("CASTOR_MACHINE_MEMORY is \"plenty\""));
  EXPECT_FALSE(Exists("out"));
  const ProcessResult large = TrainWith("128TiB");
  EXPECT_EQ(large.exit_code, 0) << large.err;
}

class RefusedHost : public CliTest {};

TEST_F(RefusedHost, NamesTheTierAndTheBudgetThatWorks) {
  Json config = SmallConfig();
  config["memory"] = {{"placement_policy", "cpu"}, {"host_memory", "20KiB"}};
  const ProcessResult refused = Train(config, {"--summary", "summary.json"});
  ExpectUserError(refused);
  EXPECT_THAT(refused.err, HasSubstr("memory.host_memory"));
  const Json figures = Json::parse(ReadFile(Path("summary.json")));
  EXPECT_EQ(figures["refused"]["tier"], "host");
  const std::string marker = "states at home need ";
  const size_t at = refused.err.find(marker);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const int64_t needed = std::stoll(refused.err.substr(at + marker.size()));
  config["memory"]["host_memory"] = needed;
  const ProcessResult works = Train(config);
  EXPECT_EQ(works.exit_code, 0) << works.err;
}

TEST_F(RefusedHost, LeavesAnEarlierRunAsItWas) {
  ASSERT_EQ(Train(SmallConfig()).exit_code, 0);
  const std::string saved = ReadFile(Path("out/step-00000006.castor"));
  for (const char* resume : {"", "latest"}) {
    std::vector<std::string> args = {"--set", "memory.device_memory=1000"};
    if (*resume != '\0') args.insert(args.end(), {"--resume", resume});
    ExpectUserError(Train(SmallConfig(), args));
    EXPECT_EQ(ReadFile(Path("out/step-00000006.castor")), saved);
    EXPECT_FALSE(Exists("out.1"));
  }
}

}  // namespace
}  // namespace castor::testing
