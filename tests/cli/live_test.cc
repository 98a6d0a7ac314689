// A run that is followed while it goes on: --dashboard and --tensorboard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/live/tensorboard_decoder.h"
#include "cli/serve/test_client.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Several hundred short steps, with evaluations.
Json FollowedConfig(int64_t steps) {
  Json config = SmallConfig();
  config["steps"] = steps;
  config["data"]["validation_fraction"] = 0.2;
  config["eval_interval"] = 50;
  config["eval_batches"] = 2;
  config["checkpoint"] = {{"dir", "out"}};
  return config;
}

class Followed : public CliTest {
 protected:
  std::unique_ptr<CastorProcess> Start(const Json& config,
                                       std::vector<std::string> args) {
    WriteConfig(config);
    args.insert(args.begin(), {"train", "run.json", "--dashboard", "0",
                               "--summary", "summary.json"});
    auto process = std::make_unique<CastorProcess>(args, directory());
    EXPECT_TRUE(process->WaitForOutput("dashboard: http://"))
        << process->Wait().err;
    EXPECT_TRUE(process->WaitForOutput("/\n"));
    url_ = UrlIn(ReadFile(Path("stdout.txt")));
    return process;
  }

  // Asks as the page does, for new points, into `points_` and `validation_`.
  // Returns the answer's state.
  std::string Ask() {
    const auto last = [](const Json& steps) {
      return std::to_string(steps.empty() ? 0 : steps.back().get<int64_t>());
    };
    const HttpAnswer http =
        HttpGet(url_ + "live.json?since=" + last(points_["step"]) +
                "&validated=" + last(validation_["step"]));
    EXPECT_EQ(http.status, 200) << http.body;
    answer_ = Json::parse(http.body);
    EXPECT_EQ(answer_["every"], 1);
    const auto append = [](Json& to, const Json& from) {
      for (const auto& [name, list] : from.items()) {
        for (const Json& value : list) to[name].push_back(value);
      }
    };
    append(points_, answer_["points"]);
    append(validation_, answer_["validation"]);
    return answer_["state"];
  }
  std::string AskUntilTheEnd() {
    while (true) {
      const std::string state = Ask();
      if (state != "running") return state;
    }
  }

  // The events of each file in `name`, in the files' order.
  std::vector<std::vector<TensorBoardEvent>> Events(
      const std::string& name) const {
    std::vector<std::vector<TensorBoardEvent>> files;
    for (const std::string& file : List(name)) {
      auto events = DecodeTensorBoard(ReadFile(Path(name + "/" + file)));
      EXPECT_TRUE(events.ok()) << events.status();
      if (events.ok()) files.push_back(*std::move(events));
    }
    return files;
  }

  std::string url_;
  Json answer_;
  Json points_ = {{"step", Json::array()}};
  Json validation_ = {{"step", Json::array()}};
};

TEST_F(Followed, OnADashboardThatSaysWhatTheSummarySays) {
  const auto process = Start(FollowedConfig(400), {});
  // A client that hangs keeps nobody waiting.
  const TestConnection hanging(PortOf(url_));
  hanging.Send("GET /live.json HTTP/1.1\r\nHost:");
  EXPECT_EQ(AskUntilTheEnd(), "finished");
  const ProcessResult result = process->Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");

  const Json summary = Json::parse(ReadFile(Path("summary.json")));
  std::vector<int64_t> steps(400);
  for (int64_t i = 0; i < 400; ++i) steps[i] = i + 1;
  EXPECT_EQ(points_["step"], Json(steps));
  EXPECT_EQ(points_["loss"], summary["losses"]);
  const auto median = [&](const char* name) {
    std::vector<double> values;
    for (size_t i = 0; i < points_[name].size(); ++i) {
      if (!points_["warmup"][i]) values.push_back(points_[name][i]);
    }
    std::sort(values.begin(), values.end());
    return values[(values.size() - 1) / 2];
  };
  EXPECT_EQ(median("seconds"), summary["step_seconds"]);
  EXPECT_EQ(median("stall_seconds"), summary["stall_seconds_per_step"]);
  EXPECT_EQ(median("h2d_bytes"), summary["h2d_bytes_per_step"]);
  EXPECT_EQ(median("d2h_bytes"), summary["d2h_bytes_per_step"]);
  EXPECT_EQ(points_["device_peak_bytes"].back(), summary["device_peak_bytes"]);

  Json evaluations = Json::array();
  for (size_t i = 0; i < validation_["step"].size(); ++i) {
    evaluations.push_back({});
    for (const char* key : {"step", "loss", "perplexity", "token_accuracy"}) {
      evaluations.back()[key] = validation_[key][i];
    }
  }
  EXPECT_THAT(evaluations, SizeIs(8));
  EXPECT_EQ(evaluations, summary["evaluations"]);

  const Json& memory = answer_["memory"];
  EXPECT_EQ(memory["device_peak_bytes"], summary["device_peak_bytes"]);
  EXPECT_EQ(memory["host_peak_bytes"], summary["host_peak_bytes"]);
  const auto sum = [](const Json& list) {
    int64_t total = 0;
    for (const Json& value : list) total += value.get<int64_t>();
    return total;
  };
  EXPECT_EQ(sum(memory["device_at_peak"]), summary["device_peak_bytes"]);
  EXPECT_EQ(sum(memory["host_at_peak"]), summary["host_peak_bytes"]);
  EXPECT_EQ(points_["device_bytes"].back(), sum(memory["device"]));
  EXPECT_EQ(answer_["run"]["steps"], 400);
  EXPECT_EQ(answer_["run"]["tokens_per_step"], 64);
}

TEST_F(Followed, ToItsEndByASignal) {
  const auto process = Start(FollowedConfig(100'000), {});
  while (Ask() == "running" && points_["step"].size() < 3) {
  }
  process->Signal(SIGTERM);
  EXPECT_EQ(AskUntilTheEnd(), "interrupted");
  EXPECT_EQ(process->Wait().exit_code, 128 + SIGTERM);
  const Json summary = Json::parse(ReadFile(Path("summary.json")));
  EXPECT_EQ(points_["loss"], summary["losses"]);
  // Resumed, it goes on from there.
  const int64_t last = summary["steps"];
  points_ = {{"step", Json::array()}};
  validation_ = {{"step", Json::array()}};
  const auto again = Start(FollowedConfig(last + 20), {"--resume", "latest"});
  EXPECT_EQ(AskUntilTheEnd(), "finished");
  EXPECT_EQ(answer_["run"]["first_step"], last + 1);
  EXPECT_EQ(points_["step"].front(), last + 1);
  EXPECT_EQ(points_["step"].back(), last + 20);
  EXPECT_EQ(again->Wait().exit_code, 0);
}

TEST_F(Followed, ToItsFailure) {
  Json config = FollowedConfig(10'000);
  config.erase("scheduler");
  const auto process = Start(config, {"--set", "optimizer.params.lr=1e38"});
  EXPECT_EQ(AskUntilTheEnd(), "failed");
  const ProcessResult result = process->Wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(answer_["message"].get<std::string>()));
  EXPECT_THAT(result.err, HasSubstr("learning rate"));
}

TEST_F(Followed, OrNotEndsWithTheSameBits) {
  const Json alone = Summary(FollowedConfig(60));
  std::filesystem::remove_all(Path("out"));
  const Json followed = Summary(
      FollowedConfig(60), {"--dashboard", "0", "--tensorboard", "runs/a"});
  EXPECT_EQ(followed["parameters_sha256"], alone["parameters_sha256"]);
  EXPECT_EQ(followed["losses"], alone["losses"]);
  EXPECT_EQ(followed["device_peak_bytes"], alone["device_peak_bytes"]);
}

TEST_F(Followed, ByTensorBoardOverAnInterruption) {
  Json config = FollowedConfig(100);
  config["checkpoint"]["save_interval"] = 40;
  const Json first =
      Summary(config, {"--tensorboard", "runs", "--set", "steps=90"});
  const Json second =
      Summary(config, {"--tensorboard", "runs", "--resume", "latest"});
  const auto files = Events("runs");
  ASSERT_THAT(files, SizeIs(2));
  const auto expect = [](const std::vector<TensorBoardEvent>& events,
                         const Json& summary, int64_t from) {
    std::map<int64_t, double> evaluated;
    for (const Json& evaluation : summary["evaluations"]) {
      evaluated[evaluation["step"]] = evaluation["loss"];
    }
    int64_t step = from;
    for (const TensorBoardEvent& event : events) {
      const auto loss = event.scalars.find("train/loss");
      if (loss == event.scalars.end()) continue;
      ++step;
      EXPECT_EQ(event.step, step);
      EXPECT_EQ(loss->second,
                static_cast<float>(summary["losses"][step - from - 1]));
      EXPECT_EQ(event.scalars.size(), 10u);
      EXPECT_GT(event.scalars.at("train/tokens_per_second"), 0);
      EXPECT_GT(event.scalars.at("memory/device_peak_bytes"), 0);
      EXPECT_GE(event.scalars.at("memory/device_peak_bytes"),
                event.scalars.at("memory/device_bytes"));
    }
    EXPECT_EQ(step, summary["steps"]);
    for (const TensorBoardEvent& event : events) {
      const auto loss = event.scalars.find("validation/loss");
      if (loss == event.scalars.end()) continue;
      EXPECT_EQ(loss->second, static_cast<float>(evaluated.at(event.step)));
      evaluated.erase(event.step);
    }
    EXPECT_TRUE(evaluated.empty());
  };
  expect(files[0], first, 0);
  expect(files[1], second, 90);
  EXPECT_EQ(files[0][0].file_version, "brain.Event:2");
  EXPECT_FALSE(files[0][1].session_start);
  // Records of the first run about steps after the checkpoint are void.
  EXPECT_TRUE(files[1][1].session_start);
  EXPECT_EQ(files[1][1].step, 91);
}

TEST_F(Followed, ByTensorBoardWhenKilled) {
  WriteConfig(FollowedConfig(100'000));
  CastorProcess process({"train", "run.json", "--tensorboard", "runs"},
                        directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 30/"));
  process.Signal(SIGKILL);
  EXPECT_EQ(process.Wait().signal, SIGKILL);
  const auto files = Events("runs");
  ASSERT_THAT(files, SizeIs(1));
  int64_t step = 0;
  for (const TensorBoardEvent& event : files[0]) {
    if (event.scalars.count("train/loss") == 0) continue;
    EXPECT_EQ(event.step, ++step);
  }
  EXPECT_GE(step, 30);
}

// Exit code 2 and one line, and nothing is left on disk.
TEST_F(Followed, ByWhomThereCannotBe) {
  WriteFile(Path("file"), "");
  const auto taken = Start(FollowedConfig(1'000'000), {});
  const std::string port = std::to_string(PortOf(url_));
  const auto refused = [&](const std::vector<std::string>& args,
                           const std::string& part) {
    TemporaryDirectory other;
    WriteFile(other.path() + "/run.json", ReadFile(Path("run.json")));
    WriteFile(other.path() + "/text.txt", ReadFile(Path("text.txt")));
    std::vector<std::string> all = {"train", "run.json"};
    all.insert(all.end(), args.begin(), args.end());
    const ProcessResult result = RunCastor(all, other.path());
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_THAT(result.err, HasSubstr(args[args.size() - 2]));
    int64_t files = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(other.path())) {
      ++files;
    }
    EXPECT_EQ(files, 4) << result.err;  // run.json, text.txt, the outputs
  };
  refused({"--tensorboard", "tb", "--trace", "trace", "--dashboard", port},
          "Address already in use");
  for (const std::string bad : {"-1", "65536", "http", "80x", "1e3", " "}) {
    refused({"--dashboard", bad}, "\"" + bad + "\" is no port");
  }
  refused({"--dashboard", ""}, "empty");
  refused({"--tensorboard", ""}, "empty");
  refused({"--dashboard", "0", "--tensorboard", Path("file")},
          "is no directory");
  refused({"--dashboard", "0", "--tensorboard", "run.json/below"},
          "is no directory");
  refused({"--tensorboard", "tb", "--trace", "none/trace"}, "none/trace");
  taken->Signal(SIGKILL);
}

}  // namespace
}  // namespace castor::testing
