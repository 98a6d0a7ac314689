#include "cli/live/dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/serve/test_client.h"

namespace castor::cli {
namespace {

using ::castor::testing::HttpAnswer;
using ::castor::testing::HttpGet;
using ::castor::testing::PortOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

RunRecord AskedRun() {
  RunRecord run;
  run.title = "a <b>model</b>\xff";
  run.device = "host";
  run.policy = "auto";
  run.device_budget_bytes = 1000;
  run.steps = 100;
  run.tokens_per_step = 64;
  return run;
}

StepReport Step(int64_t step) {
  return {.step = step,
          .loss = 10.0 / static_cast<double>(step),
          .learning_rate = 1e-3,
          .seconds = 0.5,
          .stall_seconds = 0.125,
          .h2d_bytes = 100 + step,
          .d2h_bytes = 50,
          .device_peak_bytes = 900,
          .warmup = step == 1};
}

LiveMemory Memory() {
  LiveMemory memory;
  memory.device[Category::kParameters] = 600;
  memory.device[Category::kStaging] = 8;
  memory.host[Category::kOptimizerStates] = 7000;
  memory.device_at_peak[Category::kActivations] = 900;
  memory.device_peak_bytes = 900;
  memory.host_peak_bytes = 7000;
  return memory;
}

class DashboardOf : public ::testing::Test {
 protected:
  void Start(int64_t step = 0) {
    auto dashboard = Dashboard::Start(/*port=*/0, AskedRun(), step);
    ASSERT_TRUE(dashboard.ok()) << dashboard.status();
    dashboard_ = *std::move(dashboard);
  }
  std::string Url(const std::string& path) const {
    return dashboard_->url() + path;
  }
  Json Ask(const std::string& query = "") const {
    const HttpAnswer answer = HttpGet(Url("live.json" + query));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }

  std::unique_ptr<Dashboard> dashboard_;
};

TEST_F(DashboardOf, ARunThatHasNotStepped) {
  Start(/*step=*/40);
  const Json answer = Ask();
  EXPECT_EQ(answer["version"], 1);
  EXPECT_EQ(answer["state"], "running");
  EXPECT_EQ(answer["every"], 1);
  EXPECT_EQ(answer["points"]["step"], Json::array());
  EXPECT_EQ(answer["latest"]["loss"], Json::array());
  EXPECT_EQ(answer["run"]["first_step"], 41);
  EXPECT_EQ(answer["run"]["title"], "a <b>model</b>\xef\xbf\xbd");
  EXPECT_EQ(answer["run"]["device_budget_bytes"], 1000);
  EXPECT_EQ(answer["run"]["host_budget_bytes"], nullptr);
  EXPECT_EQ(answer["run"]["tokens_per_step"], 64);
}

TEST_F(DashboardOf, StepsHasTheirFigures) {
  Start();
  for (int64_t step = 1; step <= 3; ++step) {
    dashboard_->AddStep(Step(step), Memory());
  }
  dashboard_->AddValidation(2,
                            {.loss = 4.5, .perplexity = 90, .accuracy = 0.25});
  const Json answer = Ask();
  const Json& points = answer["points"];
  EXPECT_EQ(points["step"], Json({1, 2, 3}));
  EXPECT_EQ(points["steps"], Json({1, 1, 1}));
  EXPECT_EQ(points["loss"], Json({10.0, 5.0, 10.0 / 3}));
  EXPECT_EQ(points["seconds"], Json({0.5, 0.5, 0.5}));
  EXPECT_EQ(points["tokens_per_second"], Json({128.0, 128.0, 128.0}));
  EXPECT_EQ(points["stall_seconds"], Json({0.125, 0.125, 0.125}));
  EXPECT_EQ(points["h2d_bytes"], Json({101.0, 102.0, 103.0}));
  EXPECT_EQ(points["d2h_bytes"], Json({50.0, 50.0, 50.0}));
  EXPECT_EQ(points["device_bytes"], Json({608, 608, 608}));
  EXPECT_EQ(points["device_peak_bytes"], Json({900, 900, 900}));
  EXPECT_EQ(points["host_bytes"], Json({7000, 7000, 7000}));
  EXPECT_EQ(points["warmup"], Json({true, false, false}));
  EXPECT_EQ(answer["latest"]["step"], Json({3}));
  EXPECT_EQ(answer["validation"], Json({{"step", {2}},
                                        {"loss", {4.5}},
                                        {"perplexity", {90}},
                                        {"token_accuracy", {0.25}}}));
  const Json& memory = answer["memory"];
  EXPECT_EQ(memory["categories"][0], "parameters");
  EXPECT_EQ(memory["device"], Json({600, 0, 0, 0, 0, 8}));
  EXPECT_EQ(memory["host"], Json({0, 0, 7000, 0, 0, 0}));
  EXPECT_EQ(memory["device_at_peak"], Json({0, 0, 0, 900, 0, 0}));
  EXPECT_EQ(memory["device_peak_bytes"], 900);
}

TEST_F(DashboardOf, StepsHandsOutWhatIsNew) {
  Start();
  for (int64_t step = 1; step <= 5; ++step) {
    dashboard_->AddStep(Step(step), Memory());
    dashboard_->AddValidation(step, {.loss = 1});
  }
  Json answer = Ask("?since=3&validated=4");
  EXPECT_EQ(answer["points"]["step"], Json({4, 5}));
  EXPECT_EQ(answer["validation"]["step"], Json({5}));
  answer = Ask("?since=5&validated=5");
  EXPECT_EQ(answer["points"]["step"], Json::array());
  EXPECT_EQ(answer["validation"]["step"], Json::array());
  EXPECT_EQ(answer["latest"]["step"], Json({5}));
  EXPECT_EQ(Ask("?since=-9")["points"]["step"].size(), 5u);
  for (const std::string query : {"?since=x", "?validated=1e99", "?since="}) {
    EXPECT_EQ(HttpGet(Url("live.json" + query)).status, 400) << query;
  }
}

TEST_F(DashboardOf, ABudgetThatChanges) {
  Start();
  dashboard_->AddStep(Step(1), Memory());
  EXPECT_EQ(Ask()["budgets"]["step"], Json::array());
  dashboard_->AddBudget({.step = 1,
                         .from_bytes = 1000,
                         .to_bytes = 700,
                         .asker = BudgetAsker::kResize});
  dashboard_->AddStep(Step(2), Memory());
  const Json answer = Ask();
  EXPECT_EQ(answer["points"]["device_budget_bytes"], Json({1000, 700}));
  EXPECT_EQ(answer["run"]["device_budget_bytes"], 700);
  EXPECT_EQ(answer["budgets"], Json({{"step", {1}},
                                     {"from", {1000}},
                                     {"to", {700}},
                                     {"asked_by", {"castor resize"}}}));
}

// A loss that is no number is null: JSON knows no other.
TEST_F(DashboardOf, ALossThatIsNoNumber) {
  Start();
  StepReport step = Step(1);
  step.loss = std::numeric_limits<double>::quiet_NaN();
  dashboard_->AddStep(step, Memory());
  EXPECT_EQ(Ask()["points"]["loss"], Json::array({nullptr}));
}

// 50,000 steps while clients ask, slowly or not: every answer is one state of
// the run, and small.
TEST_F(DashboardOf, AnswersWhileTheRunGoesOn) {
  Start();
  std::atomic<bool> over{false};
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      int64_t every = 1;
      while (!over.load()) {
        const Json answer = Ask();
        const auto& steps = answer["points"]["step"];
        ASSERT_LE(static_cast<int64_t>(steps.size()), Dashboard::kMaxPoints);
        ASSERT_GE(answer["every"], every);
        every = answer["every"];
        for (size_t i = 0; i < steps.size(); ++i) {
          ASSERT_EQ(steps[i], static_cast<int64_t>(i + 1) * every);
        }
      }
    });
  }
  const castor::testing::TestConnection hanging(PortOf(dashboard_->url()));
  hanging.Send("GET /live.json HT");
  for (int64_t step = 1; step <= 50'000; ++step) {
    dashboard_->AddStep(Step(step), Memory());
    dashboard_->AddValidation(step, {.loss = 1});
  }
  over.store(true);
  for (std::thread& client : clients) client.join();
  const Json answer = Ask();
  EXPECT_EQ(answer["latest"]["step"], Json({50'000}));
  EXPECT_GT(answer["every"], 8);
  EXPECT_LE(answer["validation"]["step"].size(), 2048u);
  EXPECT_EQ(answer["validation"]["step"].back(), 50'000);
}

TEST_F(DashboardOf, AnEndTellsThoseWhoWatch) {
  Start();
  dashboard_->AddStep(Step(1), Memory());
  EXPECT_EQ(Ask()["state"], "running");
  std::thread run([&] { dashboard_->End("failed", "the disk is full"); });
  Json answer;
  do {
    answer = Ask();
  } while (answer["state"] == "running");
  run.join();
  EXPECT_EQ(answer["state"], "failed");
  EXPECT_EQ(answer["message"], "the disk is full");
}

TEST_F(DashboardOf, ServesItsPage) {
  Start();
  const HttpAnswer page = HttpGet(Url(""));
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.body, HasSubstr("<title>Castor run</title>"));
  EXPECT_THAT(page.headers.at("content-security-policy"),
              HasSubstr("script-src 'sha256-"));
  EXPECT_EQ(HttpGet(Url("view.json")).status, 404);
}

}  // namespace
}  // namespace castor::cli
