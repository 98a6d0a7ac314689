#include "run/optim/lr_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "base/json_reader.h"
#include "base/test_files.h"
#include "nlohmann/json.hpp"
#include "run/optim/lr_schedules.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-15;
constexpr double kRate = 0.8;

// The schedule of a configuration; `steps` are its run's, 0: not known yet.
Schedule Make(const std::string& type, const Json& params, double lr = kRate,
              int64_t steps = 0) {
  JsonReport report("params");
  JsonReader reader(params, report);
  Schedule schedule = Schedule::Read(*FindLrSchedule(type), reader);
  EXPECT_EQ(report.status(), absl::OkStatus());
  EXPECT_EQ(schedule.Resolve(lr, steps), absl::OkStatus());
  return schedule;
}

void ExpectRates(const Schedule& schedule, double lr,
                 const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(LearningRate(schedule, lr, static_cast<int64_t>(i) + 1),
                expected[i], kTolerance)
        << "step " << i + 1;
  }
}

// tests/fixtures/README.md says where the figures are from.
TEST(LearningRate, IsTheOriginalsAtEachOf2000Steps) {
  const Json cases =
      Json::parse(ReadFile("tests/fixtures/lr_schedules/rates.json"));
  std::set<std::string> types;
  for (const Json& each : cases) {
    const Schedule schedule = Make(each["type"], each["params"], each["lr"],
                                   each["steps"].get<int64_t>());
    const auto rates = each["rates"].get<std::vector<double>>();
    ASSERT_EQ(rates.size(), 2000u);
    for (size_t i = 0; i < rates.size(); ++i) {
      const double rate =
          LearningRate(schedule, each["lr"], static_cast<int64_t>(i) + 1);
      ASSERT_NEAR(rate, rates[i], 1e-7 * std::abs(rates[i]))
          << each["type"] << " " << each["params"] << " step " << i + 1;
    }
    types.insert(each["type"].get<std::string>());
  }
  for (const absl::string_view name : LrScheduleNames(true)) {
    EXPECT_TRUE(types.contains(std::string(name))) << name;
  }
  EXPECT_TRUE(types.contains("Noam"));
  EXPECT_TRUE(types.contains("warmup_exp_decay_exp"));
}

TEST(LearningRate, IsConstantWithoutAScheduler) {
  EXPECT_EQ(LearningRate(Schedule(), 0.25, 1), 0.25);
  EXPECT_EQ(LearningRate(Schedule(), 0.25, 1'000'000), 0.25);
  EXPECT_EQ(LearningRate(Make("constant", Json::object()), 0.25, 7), 0.25);
}

TEST(LearningRate, WarmsUpLinearlyAndStays) {
  // 0.4 + 0.4 * i / 4
  ExpectRates(Make("WarmupLR", {{"warmup_num_steps", 4},
                                {"warmup_type", "linear"},
                                {"warmup_min_lr", 0.4}}),
              kRate, {0.4, 0.5, 0.6, 0.7, 0.8, 0.8, 0.8});
}

TEST(LearningRate, WarmsUpByLogarithm) {
  // W = 4: ln(i + 1) / ln 4 = log2(i + 1) / 2.
  ExpectRates(
      Make("WarmupLR", {{"warmup_num_steps", 4}, {"warmup_max_lr", 0.8}}), 9,
      {0, 0.8 * 0.5, 0.8 * std::log2(3.0) / 2, 0.8, 0.8});
}

TEST(LearningRate, DecaysLinearlyToNothing) {
  // W = 2, N = 6: (6 - i) / 4 from i = 2 on.
  ExpectRates(Make("WarmupDecayLR", {{"warmup_num_steps", 2},
                                     {"warmup_type", "linear"},
                                     {"total_num_steps", 6}}),
              kRate, {0, 0.4, 0.8, 0.6, 0.4, 0.2, 0, 0, 0});
  // Nothing is left to decay over: N - W counts as 1.
  const Schedule s = Make("WarmupDecayLR",
                          {{"warmup_num_steps", 6}, {"warmup_type", "linear"}},
                          kRate, /*steps=*/6);
  EXPECT_NEAR(LearningRate(s, kRate, 6), 0.8 * 5 / 6, kTolerance);
  EXPECT_NEAR(LearningRate(s, kRate, 7), 0, kTolerance);
}

TEST(LearningRate, FollowsACosineFromTheOptimizersRate) {
  // W = 2, N = 6, x = (i - 1) / 4: cos(pi x) = 1/sqrt2, 0, -1/sqrt2, -1.
  const double half = std::sqrt(0.5);
  ExpectRates(Make("WarmupCosineLR", {{"warmup_num_steps", 2},
                                      {"warmup_type", "linear"},
                                      {"cos_min_ratio", 0.5},
                                      {"warmup_min_ratio", 0.25},
                                      {"total_num_steps", 6}}),
              2,
              {0.5, 1.25 /* 0.25 + 0.75 / 2 */, 2 * (0.5 + 0.25 * (1 + half)),
               1.5, 2 * (0.5 + 0.25 * (1 - half)), 1, 1, 1});
}

TEST(LearningRate, FallsWithTheInverseSquareRoot) {
  const Schedule s = Make("WarmupInverseSqrtLR", {{"warmup_num_steps", 4}});
  EXPECT_NEAR(LearningRate(s, 9, 3), 0.4, kTolerance);  // i = 2 of 4
  EXPECT_NEAR(LearningRate(s, 9, 5), 0.8, kTolerance);
  EXPECT_NEAR(LearningRate(s, 9, 17), 0.4, kTolerance);  // sqrt(4 / 16)
  EXPECT_NEAR(LearningRate(s, 9, 401), 0.08, kTolerance);
}

TEST(LearningRate, NeedsNoWarmup) {
  for (const char* warmup : {"log", "linear"}) {
    const auto at = [&](const char* type, int64_t step) {
      return LearningRate(
          Make(type, {{"warmup_num_steps", 0}, {"warmup_type", warmup}}, kRate,
               /*steps=*/4),
          kRate, step);
    };
    EXPECT_EQ(at("WarmupLR", 1), 0.8);
    EXPECT_EQ(at("WarmupDecayLR", 1), 0.8);
    EXPECT_NEAR(at("WarmupDecayLR", 4), 0.2, kTolerance);
    EXPECT_EQ(at("WarmupInverseSqrtLR", 1), 0.8);
    EXPECT_NEAR(at("WarmupInverseSqrtLR", 5), 0.4, kTolerance);
  }
}

TEST(LearningRate, TakesAWarmupOfOneForTwo) {
  ExpectRates(
      Make("WarmupLR", {{"warmup_num_steps", 1}, {"warmup_type", "linear"}}), 9,
      {0, 0.4, 0.8});
}

TEST(LearningRate, StaysAfterTheLastStepOfTheSchedule) {
  // Hugging Face's own would rise again.
  const Schedule s = Make("cosine", {{"total_num_steps", 10}});
  EXPECT_NEAR(LearningRate(s, kRate, 11), 0, kTolerance);
  EXPECT_EQ(LearningRate(s, kRate, 15), LearningRate(s, kRate, 11));
}

TEST(Schedule, WaitsForTheStepsOfTheRun) {
  Schedule s = Make("cosine", {{"warmup_ratio", 0.25}});
  EXPECT_EQ(s.unresolved(), "warmup_ratio");
  EXPECT_EQ(s.Params().dump(), R"({"warmup_ratio":0.25,"num_cycles":0.5})");
  ASSERT_EQ(s.Resolve(kRate, 10), absl::OkStatus());
  EXPECT_EQ(s.unresolved(), "");
  EXPECT_EQ(s.Params().dump(),
            R"({"warmup_num_steps":3,"num_cycles":0.5,"total_num_steps":10})");
  EXPECT_EQ(s, Make("cosine", {{"warmup_num_steps", 3}}, kRate, 10));
  // Steps that are given stay, and the warm-up is a share of them.
  s = Make("linear", {{"warmup_ratio", 0.25}, {"total_num_steps", 40}});
  EXPECT_EQ(s.unresolved(), "");
  EXPECT_EQ(s.warmup_steps(), 10);
  // Without an end of its own, it is a share of the run.
  s = Make("constant_with_warmup", {{"warmup_ratio", 0.25}}, kRate, 8);
  EXPECT_EQ(s.warmup_steps(), 2);
}

TEST(Schedule, RefusesWhatContradictsItself) {
  const auto error = [](const char* type, const Json& params, int64_t steps) {
    JsonReport report("params");
    JsonReader reader(params, report);
    Schedule schedule = Schedule::Read(*FindLrSchedule(type), reader);
    const absl::Status resolved = schedule.Resolve(kRate, steps);
    return std::string(report.status().ok() ? resolved.message()
                                            : report.status().message());
  };
  EXPECT_THAT(
      error("WarmupLR", {{"warmup_num_steps", 4}, {"warmup_ratio", 0.1}}, 10),
      HasSubstr("warmup_num_steps: and warmup_ratio both"));
  EXPECT_THAT(
      error("linear", {{"warmup_num_steps", 20}, {"total_num_steps", 10}}, 10),
      HasSubstr("total_num_steps: 10 is less than"));
  EXPECT_THAT(error("cosine_with_min_lr", Json::object(), 0),
              HasSubstr("min_lr: it or min_lr_rate is required"));
  EXPECT_THAT(
      error("cosine_with_min_lr", {{"min_lr", 0.1}, {"min_lr_rate", 0.1}}, 0),
      HasSubstr("give one"));
  EXPECT_THAT(error("warmup_stable_decay", Json::object(), 10),
              HasSubstr("num_decay_steps: is required"));
  EXPECT_THAT(error("warmup_stable_decay",
                    {{"warmup_num_steps", 8}, {"num_decay_steps", 3}}, 10),
              HasSubstr("num_decay_steps: 3 steps of decay after 8"));
  EXPECT_THAT(error("Noam", {{"warmup_iter", 0}}, 10),
              HasSubstr("warmup_iter: expected an integer of at least 1"));
  // BMTrain's own default of a key that changes nothing.
  EXPECT_EQ(error("Noam", {{"warmup_iter", 2}, {"end_iter", -1}}, 10), "");
  EXPECT_THAT(error("linear", {{"warmup_ratio", 1.5}}, 10),
              HasSubstr("warmup_ratio: expected a number in [0"));
}

}  // namespace
}  // namespace castor
