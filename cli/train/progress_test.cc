#include "cli/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/test_files.h"
#include "nlohmann/json.hpp"

namespace castor::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

Config SomeConfig() {
  Config config;
  config.steps = 281'474;
  return config;
}

RunReport SomeReport() {
  RunReport report;
  report.epoch = {.samples = 400, .tokens = 6400, .steps = 100};
  report.tokens_per_step = 64;
  report.device_peak_bytes = 12345678901;
  return report;
}

StepReport Step(int64_t step) {
  return {.step = step,
          .loss = 2.5,
          .learning_rate = 1.234e-5,
          .seconds = 3,
          .device_peak_bytes = 1 << 20};
}

TEST(Progress, HasOneLineThatChangesOnATerminal) {
  const Config config = SomeConfig();
  const RunReport report = SomeReport();
  Progress progress(&config, &report, /*columns=*/120);
  CaptureStdout();
  progress.AddStep(Step(150));
  progress.Print(/*all=*/true);
  const std::string first = GetCapturedStdout();
  EXPECT_THAT(first, StartsWith("epoch 1.50  step 150/281474  loss 2.5"));
  EXPECT_THAT(first, HasSubstr(" left"));
  EXPECT_THAT(first, Not(HasSubstr("\n")));
  EXPECT_LE(first.size(), 100u);
  // A message takes the place of the line that changes, which comes back below.
  CaptureStdout();
  progress.Say("a line");
  progress.AddStep(Step(151));
  progress.Print(/*all=*/true);
  EXPECT_THAT(GetCapturedStdout(),
              StartsWith("\r\x1b[Ka line\nepoch 1.51  step 151/"));
}

TEST(Progress, LeavesOutWhatANarrowTerminalHasNoRoomFor) {
  const Config config = SomeConfig();
  const RunReport report = SomeReport();
  Progress progress(&config, &report, /*columns=*/30);
  CaptureStdout();
  progress.AddStep(Step(150));
  progress.Print(/*all=*/true);
  EXPECT_EQ(GetCapturedStdout(), "step 150/281474  loss 2.5000");
}

TEST(Progress, HasPlainLinesInALog) {
  Config config = SomeConfig();
  config.steps_per_print = 10;
  const RunReport report = SomeReport();
  Progress progress(&config, &report, /*columns=*/0);
  CaptureStdout();
  for (int step = 9; step <= 12; ++step) progress.AddStep(Step(step));
  progress.Print(/*all=*/false);
  const std::string text = GetCapturedStdout();
  EXPECT_THAT(text, StartsWith("step 10/281474  loss 2.5000  lr 1.23e-05  "
                               "epoch 0.10  "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Progress, SaysAForecastAgainWhenItIsAnother) {
  const Config config = SomeConfig();
  const RunReport report = SomeReport();
  Progress progress(&config, &report, /*columns=*/0);
  const auto said = [&](int64_t step_ns, bool measured) {
    Forecast forecast;
    forecast.step_ns = step_ns;
    forecast.measured = measured;
    CaptureStdout();
    progress.TellForecast(forecast);
    return !GetCapturedStdout().empty();
  };
  EXPECT_TRUE(said(1'000'000, false));
  EXPECT_FALSE(said(1'000'000, false));
  EXPECT_TRUE(said(1'050'000, true));  // The first that was measured.
  EXPECT_FALSE(said(1'100'000, true));
  EXPECT_FALSE(said(950'000, true));
  EXPECT_TRUE(said(1'160'000, true));
  EXPECT_FALSE(said(1'060'000, true));
  EXPECT_TRUE(said(1'040'000, true));
}

std::vector<std::string> Lines(const std::string& path) {
  return absl::StrSplit(ReadFile(path), '\n');
}

TEST(JsonLog, GoesOnAfterTheStepsThatAreOver) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/log";
  {
    auto log = JsonLog::Open(path, 0);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int step = 1; step <= 3; ++step)
      (*log)->Add({{"step", step}, {"epoch", 0.5}, {"loss", 1.5}});
  }
  // A run was killed while it wrote.
  WriteFile(path, ReadFile(path) + "{\"step\":4,\"lo");
  {
    auto log = JsonLog::Open(path, 2);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Add({{"step", 3}, {"epoch", 0.5}, {"loss", 2.5}});
  }
  EXPECT_THAT(Lines(path),
              ElementsAre(R"({"step":1,"epoch":0.5,"loss":1.5})",
                          R"({"step":2,"epoch":0.5,"loss":1.5})",
                          R"({"step":3,"epoch":0.5,"loss":2.5})", ""));
  ASSERT_TRUE(JsonLog::Open(path, 0).ok());
  EXPECT_EQ(ReadFile(path), "");
  for (const char* other :
       {"no log\n", "[1, 2]\n", "{\"steps\": 1}\n", "{\"step\": 1}\n", "x"}) {
    WriteFile(path, other);
    EXPECT_TRUE(absl::IsInvalidArgument(JsonLog::Open(path, 0).status()));
    EXPECT_EQ(ReadFile(path), other);
  }
}

}  // namespace
}  // namespace castor::cli
