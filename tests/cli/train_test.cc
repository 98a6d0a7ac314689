// castor train, end to end: what it prints, what it writes, and that the bits
// do not depend on how memory is managed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "memory/exec/category.h"
#include "tests/cli/cli_test_base.h"
#include "tracer/trace_file.h"

namespace castor::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TrainCommand : public CliTest {};

int64_t CountOf(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(TrainCommand, WritesEveryKeyOfTheSummary) {
  Json config = SmallConfig();
  config["memory"] = {{"placement_policy", "cpu"},
                      {"device_memory", "160KiB"},
                      {"host_memory", "1MiB"},
                      {"warmup_steps", 2}};
  const Json summary = Summary(config);
  ASSERT_TRUE(summary["losses"].is_array());
  EXPECT_EQ(summary["losses"].size(), 6u);
  for (const Json& loss : summary["losses"]) {
    // A loss is a float's mean, so a double in JSON says it exactly.
    EXPECT_TRUE(loss.is_number_float()) << loss;
    EXPECT_GT(loss.get<double>(), 0);
  }
  EXPECT_EQ(summary["steps"], 6);
  EXPECT_EQ(summary["first_loss"], summary["losses"].front());
  EXPECT_EQ(summary["final_loss"], summary["losses"].back());
  EXPECT_EQ(summary["policy"], "cpu");
  EXPECT_EQ(summary["warmup_steps"], 2);
  EXPECT_EQ(summary["device_budget_bytes"], 160 * 1024);
  for (const char* key :
       {"device_peak_bytes", "host_peak_bytes", "h2d_bytes_per_step",
        "d2h_bytes_per_step", "smallest_device_budget_bytes"}) {
    ASSERT_TRUE(summary[key].is_number_integer()) << key;
    EXPECT_GT(summary[key].get<int64_t>(), 0) << key;
  }
  EXPECT_LE(summary["device_peak_bytes"], summary["device_budget_bytes"]);
  // The warm-up's plan and the settled one, to the byte.
  EXPECT_GE(summary["plans"], 2);
  EXPECT_EQ(summary["predicted_device_peak_bytes"],
            summary["device_peak_bytes"]);
  ASSERT_TRUE(summary["predicted_step_seconds"].is_number_float());
  EXPECT_TRUE(summary["planned_addresses"].is_boolean());
  EXPECT_GE(summary["speculative_updates"],
            summary["speculative_updates_repeated"]);
  EXPECT_GT(summary["predicted_step_seconds"].get<double>(), 0);
  EXPECT_LE(summary["smallest_device_budget_bytes"],
            summary["device_budget_bytes"]);
  EXPECT_LE(summary["host_peak_bytes"], 1 << 20);
  // Parameters come down at least once and gradients go up once.
  const int64_t model_bytes = 4 * 8896;
  EXPECT_GE(summary["h2d_bytes_per_step"], model_bytes);
  EXPECT_GE(summary["d2h_bytes_per_step"], model_bytes);
  for (const char* key :
       {"stall_seconds_per_step", "step_seconds", "tokens_per_second"}) {
    ASSERT_TRUE(summary[key].is_number()) << key;
    EXPECT_GE(summary[key].get<double>(), 0) << key;
  }
  EXPECT_NEAR(summary["tokens_per_second"].get<double>() *
                  summary["step_seconds"].get<double>(),
              2 * 2 * 16, 1e-6);
  const std::string sha = summary["parameters_sha256"];
  EXPECT_EQ(sha.size(), 64u);
  EXPECT_TRUE(std::all_of(sha.begin(), sha.end(), [](char c) {
    return std::isdigit(c) || (c >= 'a' && c <= 'f');
  })) << sha;
  EXPECT_FALSE(summary.contains("refused"));
}

TEST_F(TrainCommand, GivesTheSameBitsUnderEveryPolicyAndBudget) {
  const Json whole = Summary(SmallConfig(), {"--set", "checkpoint=false"});
  const Json unhashed = Summary(
      SmallConfig(), {"--set", "checkpoint=false", "--no-parameters-sha256"});
  EXPECT_FALSE(unhashed.contains("parameters_sha256"));
  EXPECT_EQ(unhashed["losses"], whole["losses"]);
  const int64_t smallest = whole["smallest_device_budget_bytes"];
  for (const char* policy : {"cuda", "cpu", "auto"}) {
    for (const char* chunk : {"auto", "2KiB", "64KiB"}) {
      Json config = SmallConfig();
      config["checkpoint"] = false;
      config["memory"]["placement_policy"] = policy;
      config["memory"]["chunk_size"] = chunk;
      const Json wide = Summary(config);
      EXPECT_EQ(wide["parameters_sha256"], whole["parameters_sha256"]);
      EXPECT_EQ(wide["losses"], whole["losses"]);
      config["memory"]["device_memory"] = wide["smallest_device_budget_bytes"];
      const Json narrow = Summary(config);
      EXPECT_EQ(narrow["parameters_sha256"], whole["parameters_sha256"])
          << policy << " " << chunk;
      EXPECT_EQ(narrow["losses"], whole["losses"]);
    }
  }
  EXPECT_LT(smallest, whole["unmanaged_device_bytes"].get<int64_t>() / 2);
}

TEST_F(TrainCommand, WritesTheSummaryWhereALinkLeads) {
  std::filesystem::create_directory(Path("figures"));
  WriteFile(Path("figures/target.json"), "old");
  std::filesystem::create_symlink("figures/target.json", Path("summary.json"));
  EXPECT_EQ(Summary(SmallConfig())["steps"], 6);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("summary.json")));
  EXPECT_THAT(List("figures"), ElementsAre("target.json"));
}

TEST_F(TrainCommand, PrintsThePlanBeforeTheFirstStepAndALinePerStep) {
  const ProcessResult result = Train(SmallConfig());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const size_t plan = result.out.find("memory plan: policy auto");
  const size_t first = result.out.find("\nstep 1/6  loss ");
  ASSERT_NE(plan, std::string::npos) << result.out;
  ASSERT_NE(first, std::string::npos) << result.out;
  EXPECT_LT(plan, first);
  for (const char* row : {"parameters", "gradients", "optimizer states",
                          "activations", "workspace", "staging", "budget"}) {
    EXPECT_LT(result.out.find(std::string("\n  ") + row), first) << row;
  }
  EXPECT_LT(result.out.find("\npredicted step: "), first);
  // The forecast is from measured durations, when the warm-up is over; at the
  // end it is beside the measured step.
  EXPECT_THAT(result.out.substr(first),
              HasSubstr("; addresses planned (durations as measured)\n"));
  EXPECT_THAT(result.out, HasSubstr("% of it), bound by "));
  EXPECT_EQ(CountOf(result.out, "\nstep "), 6);
  for (int step = 1; step <= 6; ++step) {
    const size_t begin =
        result.out.find("\nstep " + std::to_string(step) + "/6  loss ");
    ASSERT_NE(begin, std::string::npos) << step;
    const std::string line =
        result.out.substr(begin + 1, result.out.find('\n', begin + 1) - begin);
    for (const char* part : {"tokens/s", "device ", " of ", "bus in ", " out ",
                             "waiting ", "% ", " left"}) {
      EXPECT_THAT(line, HasSubstr(part));
    }
  }
  EXPECT_THAT(result.out, HasSubstr("out/step-00000006.castor"));
}

TEST_F(TrainCommand, ScalesTheLossInFp16) {
  Json config = SmallConfig();
  config["fp16"] = {{"enabled", true},
                    {"initial_scale_power", 26},
                    {"loss_scale_window", 1000},
                    {"hysteresis", 1}};
  config["steps"] = 20;
  config["steps_per_print"] = 8;
  const ProcessResult result = Train(config, {"--summary", "summary.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json summary = Json::parse(ReadFile(Path("summary.json")));
  EXPECT_EQ(summary["precision"], "fp16");
  const int64_t skipped = summary["skipped_steps"];
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 20);
  EXPECT_EQ(summary["loss_scale"], std::ldexp(1.0, 26 - skipped));
  EXPECT_LT(summary["final_loss"], summary["first_loss"]);
  EXPECT_EQ(CountOf(result.out, "skipped: the gradient of "), skipped);
  EXPECT_THAT(result.out,
              HasSubstr("step 1  skipped: the gradient of \"transformer."));
  EXPECT_THAT(result.out, HasSubstr("it becomes 33554432"));
  EXPECT_THAT(result.out, HasSubstr("loss scale, last"));
}

TEST_F(TrainCommand, SavesWhereTheLossScaleEnds) {
  Json config = SmallConfig();
  config["fp16"] = {{"enabled", true},
                    {"initial_scale_power", 60},
                    {"hysteresis", 2},
                    {"min_loss_scale", std::ldexp(1.0, 60)}};
  const ProcessResult result = Train(config, {"--summary", "summary.json"});
  ExpectFailure(result);
  EXPECT_THAT(result.err, HasSubstr("step 2 overflows at a loss scale of"));
  EXPECT_THAT(result.err, HasSubstr("fp16.min_loss_scale"));
  EXPECT_THAT(result.out, HasSubstr("saved "));
  const Json summary = Json::parse(ReadFile(Path("summary.json")));
  EXPECT_THAT(summary["error"].get<std::string>(),
              HasSubstr("step 2 overflows"));
  EXPECT_EQ(summary["skipped_steps"], 2);
  EXPECT_EQ(CountOf(result.out, "saved "), 1);
  EXPECT_EQ(CountOf(result.out, "skipped: the gradient of "), 2);
  // The run goes on from there with a scale at which nothing overflows.
  config["fp16"]["min_loss_scale"] = 1;
  config["fp16"]["loss_scale"] = 64;
  const ProcessResult resumed =
      Train(config, {"--resume", "latest", "--resume-changed"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("at step 2"));
  EXPECT_THAT(resumed.out, HasSubstr("(0 steps skipped)"));
}

// After the first update, which is far too large, a step overflows in forward
// already, so that there is no loss; all readers of its figures cope with that.
TEST_F(TrainCommand, ShowsAStepWithoutALoss) {
  Json config = SmallConfig();
  config["fp16"] = {{"enabled", true}, {"min_loss_scale", 0x1p-50}};
  config["optimizer"]["params"]["lr"] = 1e4;
  config.erase("scheduler");
  Json summary = Summary(config, {"--trace", "run.trace"});
  EXPECT_TRUE(summary["losses"][0].is_number());
  summary["losses"].erase(0);
  EXPECT_EQ(summary["losses"],
            Json::array({nullptr, nullptr, nullptr, nullptr, nullptr}));
  EXPECT_EQ(summary["skipped_steps"], 5);
  const auto traced = ReadTraceFile(Path("run.trace"));
  ASSERT_TRUE(traced.ok()) << traced.status();
  ASSERT_FALSE(traced->results.empty());
  EXPECT_TRUE(std::isnan(traced->results[1].loss));
  for (const std::string format : {"html", "json", "csv"}) {
    const ProcessResult exported =
        Castor({"trace", "export", "run.trace", "out." + format, "--format",
                format == "json" ? "perfetto" : format});
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
  }
  EXPECT_EQ(Castor({"replay", "run.trace"}).exit_code, 0);
}

TEST_F(TrainCommand, PrintsAsOftenAsAsked) {
  Json config = SmallConfig();
  config["steps_per_print"] = 4;
  const ProcessResult result = Train(config);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(CountOf(result.out, "\nstep "), 3) << result.out;  // 1, 4, 6
}

TEST_F(TrainCommand, WritesATraceThatReadsBack) {
  Json config = SmallConfig();
  config["memory"] = {{"placement_policy", "cpu"}};
  const Json summary = Summary(config, {"--trace", "run.trace"});
  const auto trace = ReadTraceFile(Path("run.trace"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_FALSE(trace->truncated);
  EXPECT_EQ(trace->end->status, "finished");

  // The dry pass's, the warm-up's, and the one of the window of the same step.
  ASSERT_EQ(trace->step_traces.size(), 3u);
  EXPECT_FALSE(trace->step_traces[0].measured);
  EXPECT_TRUE(trace->step_traces[1].measured);
  EXPECT_TRUE(trace->step_traces[2].measured);
  for (const StepTrace& other : trace->step_traces) {
    EXPECT_EQ(other.signature, trace->step_traces[0].signature);
  }
  // The warm-up's plan, the settled one, and this as measured in the window.
  ASSERT_EQ(trace->plans.size(), 3u);
  EXPECT_TRUE(trace->plans[0].warmup);
  EXPECT_EQ(trace->plans[1].actions, trace->plans[2].actions);
  EXPECT_EQ(trace->plans[1].predicted.device_peak_bytes,
            summary["device_peak_bytes"]);
  EXPECT_EQ(trace->plans[1].predicted.h2d_bytes, summary["h2d_bytes_per_step"]);

  // All 6 steps, each operator of each.
  const StepTrace& step = trace->step_traces[0];
  ASSERT_GT(step.ops.size(), 50u);
  ASSERT_EQ(trace->steps.size(), 6u);
  std::vector<std::set<int64_t>> issued(6), ran(6);
  int64_t highest = 0;
  for (const IssueRecord& issue : trace->issues) {
    issued[issue.step].insert(issue.moment.value);
    // P5: the reader has compared the sum of the categories with this.
    EXPECT_EQ(static_cast<int>(issue.bytes.size()), kNumCategories);
    highest = std::max(highest, issue.used_bytes);
    EXPECT_LE(issue.used_bytes,
              trace->plans[trace->steps[issue.step].plan]
                  .predicted.device_bytes[issue.moment.value]);
  }
  EXPECT_EQ(highest, summary["device_peak_bytes"]);
  std::set<int64_t> streams;
  for (const WorkRecord& work : trace->works) {
    streams.insert(work.stream);
    if (work.step >= 0) ran[work.step].insert(work.moment.value);
  }
  EXPECT_EQ(streams.size(), trace->run->streams.size());
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(issued[i].size(), step.ops.size()) << "of step " << i + 1;
    ran[i].erase(-1);
    EXPECT_EQ(ran[i].size(), step.ops.size()) << "of step " << i + 1;
  }
  EXPECT_FALSE(trace->waits.empty());

  // Every step has a result.
  ASSERT_EQ(trace->results.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(trace->results[i].step, i + 1);
    EXPECT_EQ(trace->results[i].loss, summary["losses"][i]);
  }
  ASSERT_FALSE(trace->hosts.empty());
  int64_t host = 0;
  for (const int64_t bytes : trace->hosts.back().bytes) host += bytes;
  EXPECT_EQ(host, summary["host_peak_bytes"]);
  // Tracing changes nothing.
  EXPECT_EQ(Summary(config)["parameters_sha256"], summary["parameters_sha256"]);
}

TEST_F(TrainCommand, TracesTheStepsThatAreAskedFor) {
  const Json config = SmallConfig();
  Summary(config, {"--trace", "run.trace", "--trace-steps", "3:4"});
  const auto trace = ReadTraceFile(Path("run.trace"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->steps.size(), 2u);
  EXPECT_EQ(trace->steps[0].step, 3);
  EXPECT_EQ(trace->steps[1].step, 4);
  EXPECT_EQ(trace->results.size(), 6u);  // also of those outside the window
}

TEST_F(TrainCommand, TracesARefusal) {
  Json config = SmallConfig();
  config["memory"] = {{"device_memory", 1000}};
  const ProcessResult result = Train(config, {"--trace", "run.trace"});
  EXPECT_EQ(result.exit_code, 2);
  const auto trace = ReadTraceFile(Path("run.trace"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_TRUE(trace->refusal.has_value());
  EXPECT_THAT(result.err, HasSubstr(trace->refusal->message));
  ASSERT_EQ(trace->plans.size(), 1u);
  EXPECT_TRUE(trace->plans[0].refused);
  EXPECT_EQ(trace->plans[0].device_budget_bytes, 1000);
  EXPECT_EQ(trace->step_traces.size(), 1u);
}

TEST_F(TrainCommand, ReadsTokensOf16And32Bits) {
  const std::string text = ReadFile(Path("text.txt"));
  std::string narrow, wide;
  for (char c : text) {
    narrow += {c, '\0'};
    wide += {c, '\0', '\0', '\0'};
  }
  WriteFile(Path("narrow.bin"), narrow);
  WriteFile(Path("wide.bin"), wide);
  const Json expected = Summary(SmallConfig());
  Json config = SmallConfig();
  config["data"]["train"] = "narrow.bin";
  EXPECT_EQ(Summary(config)["parameters_sha256"],
            expected["parameters_sha256"]);
  config["data"]["train"] = "wide.bin";
  config["data"]["token_type"] = "uint32";
  EXPECT_EQ(Summary(config)["parameters_sha256"],
            expected["parameters_sha256"]);
}

TEST_F(TrainCommand, EvaluatesWithoutDisturbingTraining) {
  WriteFile(Path("val.txt"), SmallText(3000).substr(1000));
  Json config = SmallConfig();
  const Json plain = Summary(config);
  config["data"]["validation"] = "val.txt";
  config["eval_interval"] = 2;
  config["eval_batches"] = 3;
  const Json evaluated = Summary(config);
  EXPECT_EQ(evaluated["parameters_sha256"], plain["parameters_sha256"]);
  EXPECT_EQ(evaluated["losses"], plain["losses"]);
  ASSERT_EQ(evaluated["evaluations"].size(), 3u);
  EXPECT_EQ(evaluated["evaluations"][0]["step"], 2);
  EXPECT_EQ(evaluated["evaluations"][2]["step"], 6);
  EXPECT_LT(evaluated["evaluations"][2]["loss"],
            evaluated["evaluations"][0]["loss"]);
  EXPECT_THAT(evaluated["evaluations"][0]["loss"].get<double>(),
              ::testing::AllOf(::testing::Gt(3.0), ::testing::Lt(6.0)));
}

TEST_F(TrainCommand, TakesOverridesOfAnyKey) {
  Json config = SmallConfig();
  config["steps"] = 3;
  config["optimizer"]["params"]["lr"] = 0.01;
  config["optimizer"]["params"]["betas"] = {0.8, 0.9};
  const Json expected = Summary(config);
  const Json overridden = Summary(
      SmallConfig(), {"--set", "steps=3", "--set", "optimizer.params.lr=0.01",
                      "--set", "optimizer.params.betas=[0.8, 0.9]"});
  EXPECT_EQ(overridden["parameters_sha256"], expected["parameters_sha256"]);
  EXPECT_EQ(overridden["steps"], 3);
}

TEST_F(TrainCommand, TakesPathsRelativeToTheConfig) {
  std::filesystem::create_directory(Path("sub"));
  std::filesystem::rename(Path("text.txt"), Path("sub/text.txt"));
  WriteFile(Path("sub/run.json"),
            "// a comment\n" + SmallConfig().dump() + " /* another */");
  const ProcessResult result = Castor({"train", "sub/run.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(List("sub/out"),
              ElementsAre("step-00000004.castor", "step-00000006.castor"));
  EXPECT_FALSE(Exists("out"));
}

TEST_F(TrainCommand, KeepsAnEarlierRunsCheckpoints) {
  Json config = SmallConfig();
  ASSERT_EQ(Train(config).exit_code, 0);
  const std::string old = ReadFile(Path("out/step-00000006.castor"));
  config["seed"] = 8;
  config["steps"] = 4;
  const ProcessResult result = Train(config);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("earlier run moved to " + Path("out.1")));
  EXPECT_EQ(ReadFile(Path("out.1/step-00000006.castor")), old);
  EXPECT_THAT(List("out"),
              ElementsAre("step-00000002.castor", "step-00000004.castor"));
}

TEST_F(TrainCommand, GoesBackToAnOlderCheckpointWithoutLosingTheNewer) {
  Json config = SmallConfig();
  config["checkpoint"]["keep"] = 3;
  const Json whole = Summary(config);
  const std::string newest = ReadFile(Path("out/step-00000006.castor"));
  // Other settings from step 2 on: steps 4 and 6 are now another run's.
  const std::vector<std::string> from_2 = {"--resume",
                                           "out/step-00000002.castor",
                                           "--resume-changed",
                                           "--set",
                                           "steps=5",
                                           "--set",
                                           "optimizer.params.lr=0.1"};
  const Json other = Summary(config, from_2);
  EXPECT_THAT(List("out"),
              ElementsAre("step-00000002.castor", "step-00000004.castor",
                          "step-00000005.castor"));
  EXPECT_THAT(List("out.1"), ElementsAre("castor.aside", "step-00000004.castor",
                                         "step-00000006.castor"));
  EXPECT_EQ(ReadFile(Path("out.1/step-00000006.castor")), newest);
  EXPECT_NE(other["losses"][1], whole["losses"][3]);
  EXPECT_EQ(other["losses"].size(), 3u);
  EXPECT_EQ(other["losses"][0], whole["losses"][2]);
}

TEST_F(TrainCommand, GoesOnInAnotherFormatButNotWithAnotherOptimizersStates) {
  Json config = SmallConfig();
  config["checkpoint"]["keep"] = 3;
  config["optimizer"] = {{"type", "Lion"}, {"params", {{"lr", 1e-3}}}};
  const Json whole = Summary(config);
  const auto resumed = [](const std::string& type) {
    return std::vector<std::string>{"--resume",
                                    "out/step-00000002.castor",
                                    "--resume-changed",
                                    "--set",
                                    "steps=3",
                                    "--set",
                                    "optimizer.type=" + type};
  };
  const ProcessResult other = Train(config, resumed("AdamW"));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("step-00000002.castor has of each parameter what Lion "
                        "keeps (m), and AdamW keeps m, v"));
  const ProcessResult without = Train(config, resumed("SGD"));
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("and SGD keeps no states"));
  // The first step after it does not depend on what is kept from then on.
  const Json small = Summary(config, resumed("Lion8bit"));
  EXPECT_EQ(small["losses"][0], whole["losses"][2]);
  EXPECT_NE(small["parameters_sha256"], whole["parameters_sha256"]);
}

TEST_F(TrainCommand, SaysWhenNothingIsLeftToTrain) {
  const Json whole = Summary(SmallConfig());
  // A scheduler may start a job again that had ended well: the figures stay.
  EXPECT_EQ(Summary(SmallConfig(), {"--resume", "auto"}), whole);
  // Those of other parameters do not.
  WriteFile(Path("summary.json"),
            R"({"ended": "finished", "parameters_sha256": "0"})");
  const Json again = Summary(SmallConfig(), {"--resume", "latest"});
  EXPECT_EQ(again["steps"], 6);
  EXPECT_EQ(again["parameters_sha256"], whole["parameters_sha256"]);
  EXPECT_THAT(again["losses"], IsEmpty());
  EXPECT_THAT(ReadFile(Path("stdout.txt")), HasSubstr("that is all of them"));
}

TEST_F(TrainCommand, SavesNothingWithoutADirectory) {
  Json config = SmallConfig();
  config["checkpoint"] = false;
  ASSERT_EQ(Train(config).exit_code, 0);
  EXPECT_THAT(List("."),
              ElementsAre("run.json", "stderr.txt", "stdout.txt", "text.txt"));
}

}  // namespace
}  // namespace castor::testing
