// What an older Castor wrote is read as it read it itself
// (tests/fixtures/older).
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

std::string Fixture(const std::string& name) {
  return std::filesystem::absolute("tests/fixtures/older/" + name);
}

class OlderCastor : public CliTest {
 protected:
  OlderCastor() {
    WriteFile(Path("text.txt"), ReadFile(Fixture("text.txt")));
    std::filesystem::create_directory(Path("ck"));
    WriteFile(Path("ck/step-00000003.castor"),
              ReadFile(Fixture("step-00000003.castor")));
  }
  Json Config() const { return Json::parse(ReadFile(Fixture("run.json"))); }
};

TEST_F(OlderCastor, ItsCheckpointHasItsParameters) {
  const Json then = Json::parse(ReadFile(Fixture("summary.json")));
  // No step is left to be run.
  const Json now = Summary(Config(), {"--resume", "latest"});
  EXPECT_EQ(now["parameters_sha256"], then["parameters_sha256"]);
}

TEST_F(OlderCastor, ItsRunGoesOn) {
  Json config = Config();
  config["steps"] = 5;
  const Json summary = Summary(config, {"--resume", "latest"});
  EXPECT_EQ(summary["losses"].size(), 2u);
  EXPECT_TRUE(Exists("ck/step-00000005.castor"));
}

TEST_F(OlderCastor, ItsTraceGivesTheSameTables) {
  const ProcessResult result = Castor(
      {"trace", "export", Fixture("trace.jsonl"), "csv", "--format", "csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> tables = List("csv");
  // The table of blocks came later.
  EXPECT_EQ(tables.size(), 7u);
  for (const std::string& table : tables) {
    if (table == "blocks.csv") continue;
    EXPECT_EQ(ReadFile(Path("csv/" + table)), ReadFile(Fixture("csv/" + table)))
        << table;
  }
}

TEST_F(OlderCastor, ItsTraceReplaysTheSame) {
  const ProcessResult result =
      Castor({"replay", Fixture("trace.jsonl"), "--policy", "cpu"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, ReadFile(Fixture("replay.txt")));
}

}  // namespace
}  // namespace castor::testing
