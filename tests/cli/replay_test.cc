// `castor replay`: a recorded run under its own and under other conditions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"
#include "tracer/trace_file.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Row = std::map<std::string, std::string>;  // by column

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == at && !quoted) {
      parts.emplace_back();
    } else if (c != '"') {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<Row> ParseCsv(const std::string& text) {
  std::vector<std::string> lines = Split(text, '\n');
  const std::vector<std::string> names = Split(lines.front(), ',');
  std::vector<Row> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string> cells = Split(lines[i], ',');
    EXPECT_EQ(cells.size(), names.size()) << lines[i];
    Row row;
    for (size_t c = 0; c < std::min(cells.size(), names.size()); ++c) {
      row[names[c]] = cells[c];
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

int64_t Number(const Row& row, const std::string& name) {
  return std::stoll(row.at(name));
}

class ReplayTest : public CliTest {
 protected:
  static Json Config(const std::string& policy = "auto",
                     const Json& device_memory = "unlimited") {
    Json config = SmallConfig();
    config["checkpoint"] = false;
    config["memory"] = {{"placement_policy", policy},
                        {"device_memory", device_memory}};
    return config;
  }

  ProcessResult Replay(std::vector<std::string> args) const {
    args.insert(args.begin(), {"replay", "run.trace"});
    return Castor(args);
  }
  // The table's only row.
  Row ReplayRow(std::vector<std::string> args = {}) const {
    args.insert(args.end(), {"--csv", "replay.csv"});
    const ProcessResult result = Replay(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::vector<Row> rows = ParseCsv(ReadFile(Path("replay.csv")));
    EXPECT_EQ(rows.size(), 1u);
    return rows.empty() ? Row() : rows.front();
  }
  int64_t SmallestBudget(const std::string& policy) const {
    WriteConfig(Config(policy));
    const ProcessResult plan = Castor({"plan", "run.json"});
    const std::string marker = "device budget that would do: ";
    const size_t at = plan.out.find(marker);
    EXPECT_NE(at, std::string::npos) << plan.out << plan.err;
    const size_t number = plan.out.find('(', at);
    return std::stoll(plan.out.substr(number + 1));
  }
};

class OwnConditions : public ReplayTest,
                      public ::testing::WithParamInterface<const char*> {};

TEST_P(OwnConditions, GiveTheRunsPlanItsBytesAndItsPeakToTheByte) {
  const int64_t smallest = SmallestBudget(GetParam());
  for (const int64_t budget : {smallest, smallest + 20000, smallest * 2}) {
    const Json summary =
        Summary(Config(GetParam(), budget), {"--trace", "run.trace"});
    const auto trace = ReadTraceFile(Path("run.trace"));
    ASSERT_TRUE(trace.ok()) << trace.status();
    int64_t peak = 0;
    for (const IssueRecord& issue : trace->issues) {
      const PlanRecord& plan = trace->plans[trace->steps[issue.step].plan];
      if (!plan.warmup) peak = std::max(peak, issue.used_bytes);
    }
    const Row row = ReplayRow();
    EXPECT_EQ(row.at("as_recorded"), "1");
    EXPECT_EQ(row.at("policy"), GetParam());
    EXPECT_EQ(Number(row, "device_budget_bytes"), budget);
    EXPECT_EQ(Number(row, "device_peak_bytes"), peak);
    EXPECT_EQ(Number(row, "measured_device_peak_bytes"), peak);
    EXPECT_GT(Number(row, "measured_step_ns"), 0);
    EXPECT_EQ(Number(row, "h2d_bytes"), summary["h2d_bytes_per_step"]);
    EXPECT_EQ(Number(row, "d2h_bytes"), summary["d2h_bytes_per_step"]);
    EXPECT_LE(Number(row, "least_h2d_bytes"), Number(row, "h2d_bytes"));
    EXPECT_GT(Number(row, "step_ns"), 0);
    // Said in words, the same conditions are the same.
    const Row said = ReplayRow({"--policy", GetParam(), "--device-memory",
                                std::to_string(budget), "--prefetch", "true"});
    EXPECT_EQ(said, row);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, OwnConditions,
                         ::testing::Values("cuda", "cpu", "auto"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_F(ReplayTest, PlansWhatARunWithThoseConditionsMoves) {
  Summary(Config("auto"), {"--trace", "run.trace"});
  const int64_t smallest = SmallestBudget("cpu");
  const Json summary = Summary(Config("cpu", smallest + 5000));
  const Row row = ReplayRow(
      {"--policy", "cpu", "--device-memory", std::to_string(smallest + 5000)});
  EXPECT_EQ(row.at("as_recorded"), "0");
  EXPECT_EQ(row.at("measured_step_ns"), "");
  EXPECT_EQ(Number(row, "h2d_bytes"), summary["h2d_bytes_per_step"]);
  EXPECT_EQ(Number(row, "d2h_bytes"), summary["d2h_bytes_per_step"]);
  EXPECT_EQ(Number(row, "device_peak_bytes"), summary["device_peak_bytes"]);
}

// One trace tells of any choice of kept blocks.
TEST_F(ReplayTest, PlansWhatARunWithOtherActivationsKeptMoves) {
  const auto with = [](Json config, const char* checkpointing) {
    config["memory"]["activation_checkpointing"] = checkpointing;
    return config;
  };
  const int64_t budget = SmallestBudget("cpu") + 5000;
  const std::string bytes = std::to_string(budget);
  for (const char* recorded : {"none", "block", "auto"}) {
    SCOPED_TRACE(recorded);
    const Json of_run = Summary(with(Config("auto", budget), recorded),
                                {"--trace", "run.trace"});
    EXPECT_EQ(of_run["blocks"], 2);
    EXPECT_EQ(ReplayRow().at("as_recorded"), "1");
    for (const char* other : {"none", "block"}) {
      SCOPED_TRACE(other);
      const Json summary = Summary(with(Config("cpu", budget), other));
      EXPECT_EQ(summary["kept_blocks"], other[0] == 'n' ? 2 : 0);
      const Row row = ReplayRow({"--policy", "cpu", "--device-memory", bytes,
                                 "--activation-checkpointing", other});
      EXPECT_EQ(Number(row, "h2d_bytes"), summary["h2d_bytes_per_step"]);
      EXPECT_EQ(Number(row, "d2h_bytes"), summary["d2h_bytes_per_step"]);
      EXPECT_EQ(Number(row, "device_peak_bytes"), summary["device_peak_bytes"]);
    }
    const auto step_ns = [&](const char* checkpointing) {
      return Number(ReplayRow({"--bus-gbps", "0.5",
                               "--activation-checkpointing", checkpointing}),
                    "step_ns");
    };
    EXPECT_LE(step_ns("auto"), std::min(step_ns("none"), step_ns("block")));
  }
  const ProcessResult unknown = Replay({"--activation-checkpointing", "some"});
  ExpectUserError(unknown);
  EXPECT_THAT(unknown.err, HasSubstr("\"some\" is none of none, block, auto"));
}

TEST_F(ReplayTest, TraceThatSaysNothingOfBlocksIsReplayedAsItIs) {
  Summary(Config(), {"--trace", "run.trace"});
  std::string text;
  for (const std::string& line : SplitLines(ReadFile(Path("run.trace")))) {
    Json json = Json::parse(line);
    if (json.is_object()) {
      json.erase("blocks");
      json.erase("activation_checkpointing");
    }
    text += json.dump() + "\n";
  }
  WriteFile(Path("run.trace"), text);
  EXPECT_EQ(ReplayRow().at("as_recorded"), "1");
  EXPECT_EQ(ReplayRow({"--policy", "cpu"}).at("as_recorded"), "0");
  const ProcessResult result = Replay({"--activation-checkpointing", "auto"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("says nothing of blocks"));
}

TEST_F(ReplayTest, TakesLongerOverASlowerBus) {
  const int64_t smallest = SmallestBudget("cpu");
  Summary(Config("cpu", smallest), {"--trace", "run.trace"});
  const Row fast = ReplayRow({"--bus-gbps", "10"});
  const Row slow = ReplayRow({"--bus-gbps", "0.001"});
  EXPECT_EQ(fast.at("h2d_bytes"), slow.at("h2d_bytes"));
  // The copies alone take that long.
  EXPECT_GT(Number(slow, "step_ns"), Number(slow, "h2d_bytes") * 1000);
  EXPECT_LT(Number(fast, "step_ns"), Number(slow, "step_ns"));
}

TEST_F(ReplayTest, ShowsTheRunBesideTheReplay) {
  Summary(Config(), {"--trace", "run.trace"});
  const ProcessResult result = Replay({"--device-memory", "1GiB"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* row : {"recorded run", "step time", "tokens/s", "waiting",
                          "device peak", "to the device a step",
                          "the least possible", "the device is fullest at "}) {
    EXPECT_THAT(result.out, HasSubstr(row));
  }
  EXPECT_THAT(result.out, HasSubstr("1.00 GiB"));
}

TEST_F(ReplayTest, RefusesInTrainsOwnWords) {
  Summary(Config(), {"--trace", "run.trace"});
  const int64_t smallest = SmallestBudget("auto");
  const std::string less = std::to_string(smallest - 256);
  const ProcessResult replayed = Replay({"--device-memory", less});
  ExpectUserError(replayed);
  EXPECT_EQ(replayed.out, "");
  const ProcessResult trained = Train(Config("auto", smallest - 256));
  ExpectUserError(trained);
  // Train may add what else would help.
  const std::string line = replayed.err.substr(0, replayed.err.size() - 1);
  EXPECT_THAT(trained.err, StartsWith(line));
  EXPECT_THAT(line, HasSubstr(std::to_string(smallest) + " bytes"));
  EXPECT_EQ(Number(ReplayRow({"--device-memory", std::to_string(smallest)}),
                   "device_budget_bytes"),
            smallest);

  const ProcessResult host = Replay({"--host-memory", "20KiB"});
  ExpectUserError(host);
  EXPECT_THAT(host.err, HasSubstr("memory.host_memory"));
  const ProcessResult cuda =
      Replay({"--policy", "cuda", "--device-memory", std::to_string(smallest)});
  ExpectUserError(cuda);
  EXPECT_THAT(cuda.err, HasSubstr("it would fit with "
                                  "memory.placement_policy \"auto\""));
}

// --json prints the same figures as the table of --csv.
TEST_F(ReplayTest, TellsFiguresAsJson) {
  const Json summary = Summary(Config("auto"), {"--trace", "run.trace"});
  const auto figures = [&](std::vector<std::string> args, int exit_code) {
    args.push_back("--json");
    const ProcessResult result = Replay(args);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    const Json json = Json::parse(result.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << result.out;
    return json;
  };
  const Row row = ReplayRow();
  const Json own = figures({}, 0);
  EXPECT_EQ(own["fits"], true);
  EXPECT_EQ(own["as_recorded"], true);
  EXPECT_EQ(own["durations_measured"], true);
  EXPECT_EQ(own["policy"], "auto");
  EXPECT_TRUE(own["busy"].contains(own["binds"].get<std::string>()));
  EXPECT_NEAR(own["predicted_step_seconds"].get<double>(),
              1e-9 * static_cast<double>(Number(row, "step_ns")), 1e-9);
  EXPECT_EQ(own["predicted_device_peak_bytes"],
            Number(row, "device_peak_bytes"));
  EXPECT_EQ(own["h2d_bytes_per_step"], summary["h2d_bytes_per_step"]);
  EXPECT_EQ(own["device_peak_bytes"],
            Number(row, "measured_device_peak_bytes"));
  const Json sweep = figures({"--sweep", "--policy", "auto"}, 0)["sweep"];
  ASSERT_GT(sweep.size(), 1u);
  EXPECT_LT(sweep.front()["device_budget_bytes"],
            sweep.back()["device_budget_bytes"]);

  const Json refused = figures({"--device-memory", "1KiB"}, 2);
  EXPECT_EQ(refused["fits"], false);
  EXPECT_EQ(refused["binds"], "device_memory");
  EXPECT_EQ(refused["smallest_device_budget_bytes"],
            sweep.front()["device_budget_bytes"]);
  EXPECT_THAT(refused["error"].get<std::string>(), HasSubstr("does not fit"));
}

TEST_F(ReplayTest, FindsABudgetForARunThatWasRefused) {
  const ProcessResult refused =
      Train(Config("auto", 40 * 1024), {"--trace", "run.trace"});
  ExpectUserError(refused);
  const ProcessResult same = Replay({});
  ExpectUserError(same);
  const std::string line = same.err.substr(0, same.err.size() - 1);
  EXPECT_THAT(refused.err, StartsWith(line));

  const int64_t smallest = SmallestBudget("auto");
  const Row row = ReplayRow({"--device-memory", std::to_string(smallest)});
  EXPECT_EQ(row.at("as_recorded"), "0");
  EXPECT_EQ(Number(row, "device_peak_bytes"), smallest);
  const ProcessResult said =
      Replay({"--device-memory", std::to_string(smallest)});
  EXPECT_THAT(said.out, HasSubstr("times are estimated"));
  const ProcessResult sweep = Replay({"--sweep", "--csv", "sweep.csv"});
  EXPECT_EQ(sweep.exit_code, 0) << sweep.err;
  EXPECT_EQ(Number(ParseCsv(ReadFile(Path("sweep.csv"))).front(),
                   "device_budget_bytes"),
            smallest);
}

TEST_F(ReplayTest, SweepsFromTheSmallestBudgetToEverything) {
  const int64_t smallest = SmallestBudget("auto");
  const int64_t everything = SmallestBudget("cuda");
  Summary(Config("auto", smallest + 20000), {"--trace", "run.trace"});
  const ProcessResult result =
      Replay({"--sweep", "--csv", "sweep.csv", "--picture", "sweep.svg"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("step time over device memory"));
  EXPECT_THAT(result.out, HasSubstr("as recorded"));

  std::map<std::string, std::vector<Row>> by_policy;
  for (const Row& row : ParseCsv(ReadFile(Path("sweep.csv")))) {
    by_policy[row.at("policy")].push_back(row);
    EXPECT_LE(Number(row, "device_peak_bytes"),
              Number(row, "device_budget_bytes"));
  }
  ASSERT_EQ(by_policy.size(), 3u);
  EXPECT_GE(by_policy["auto"].size(), 16u);
  EXPECT_EQ(by_policy["cpu"].size(), by_policy["auto"].size());
  EXPECT_EQ(by_policy["cuda"].size(), 1u);
  for (const auto& [policy, rows] : by_policy) {
    if (policy != "cuda") {
      EXPECT_EQ(Number(rows.front(), "device_budget_bytes"), smallest);
    }
    EXPECT_EQ(Number(rows.back(), "device_budget_bytes"), everything);
    for (size_t i = 1; i < rows.size(); ++i) {
      EXPECT_GT(Number(rows[i], "device_budget_bytes"),
                Number(rows[i - 1], "device_budget_bytes"));
    }
  }
  // With the states at home throughout, more room never takes more copies.
  const std::vector<Row>& cpu = by_policy["cpu"];
  for (size_t i = 1; i < cpu.size(); ++i) {
    EXPECT_LE(Number(cpu[i], "least_h2d_bytes"),
              Number(cpu[i - 1], "least_h2d_bytes"));
    EXPECT_LE(Number(cpu[i], "h2d_bytes"), Number(cpu[i - 1], "h2d_bytes"));
  }
  EXPECT_GT(Number(by_policy["auto"].front(), "h2d_bytes"), 0);
  EXPECT_EQ(Number(by_policy["auto"].back(), "h2d_bytes"), 0);

  const std::string svg = ReadFile(Path("sweep.svg"));
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, HasSubstr("step time, ms"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  for (const char* reach : {"<script", "href", "url(", "<image"}) {
    EXPECT_THAT(svg, Not(HasSubstr(reach)));
  }
}

TEST_F(ReplayTest, SweepsOnePolicyWhereOneIsGiven) {
  Summary(Config(), {"--trace", "run.trace"});
  const ProcessResult result =
      Replay({"--sweep", "--policy", "cpu", "--csv", "sweep.csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const Row& row : ParseCsv(ReadFile(Path("sweep.csv")))) {
    EXPECT_EQ(row.at("policy"), "cpu");
  }
}

TEST_F(ReplayTest, DrawsAHostileTitleAsText) {
  Summary(Config(), {"--trace", "run.trace"});
  std::string trace = ReadFile(Path("run.trace"));
  const size_t at = trace.find("gpt2");
  ASSERT_NE(at, std::string::npos);
  trace.replace(at, 4, "</title><script>alert(1)</script>&");
  WriteFile(Path("run.trace"), trace);
  const ProcessResult result = Replay({"--sweep", "--picture", "sweep.svg"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string svg = ReadFile(Path("sweep.svg"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&amp;"));
}

TEST_F(ReplayTest, SaysWhatIsWrongInOneLineAndWritesNothing) {
  Summary(Config(), {"--trace", "run.trace"});
  WriteFile(Path("not.trace"), "step time: 3 ms\n");
  WriteFile(Path("empty.trace"), "");
  const std::vector<std::string> before = List("");
  const auto expect = [&](const std::vector<std::string>& args,
                          const std::string& part) {
    const ProcessResult result = Castor(args);
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(List(""), before);
  };
  expect({"replay"}, "TRACE");
  expect({"replay", "none.trace"}, "none.trace");
  expect({"replay", "not.trace", "--csv", "a.csv"}, "not.trace");
  expect({"replay", "empty.trace", "--csv", "a.csv"}, "empty.trace");
  expect({"replay", "run.trace", "--policy", "gpu"}, "--policy");
  expect({"replay", "run.trace", "--device-memory", "8 gibs"},
         "--device-memory");
  expect({"replay", "run.trace", "--host-memory", "-1"}, "--host-memory");
  expect({"replay", "run.trace", "--device-memory", ""}, "--device-memory");
  expect({"replay", "run.trace", "--bus-gbps", "fast"}, "--bus-gbps");
  expect({"replay", "run.trace", "--bus-gbps", "0"}, "--bus-gbps");
  expect({"replay", "run.trace", "--bus-gbps", "nan"}, "--bus-gbps");
  expect({"replay", "run.trace", "--prefetch", "perhaps"}, "--prefetch");
  expect({"replay", "run.trace", "--picture", "a.svg"}, "--sweep");
  expect({"replay", "run.trace", "--csv", "./run.trace"}, "the trace itself");
  expect({"replay", "run.trace", "--sweep", "--csv", "a", "--picture", "a"},
         "the table of --csv");
  expect({"replay", "run.trace", "--sweep", "--device-memory", "1GiB"},
         "--device-memory");
  expect({"replay", "run.trace", "--csv", "none/a.csv"}, "none/a.csv");
  expect({"replay", "run.trace", "--sweep", "--picture", "."}, "--picture");
  expect({"replay", "run.trace", "--csv", "a.csv", "--device-memory", "1KiB"},
         "does not fit");
}

}  // namespace
}  // namespace castor::testing
