#include "run/optim/loss_scaler.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace castor {
namespace {

// A step, and whether training can go on after it.
bool GoesOn(LossScaler& scaler, bool overflow) {
  return scaler.Update(/*step=*/1, overflow ? "w" : "").ok();
}

// tests/fixtures/README.md says where the figures are from.
TEST(LossScaler, DoesWhatDeepSpeedsDoes) {
  std::ifstream in("tests/fixtures/loss_scale/deepspeed.json");
  const auto runs = nlohmann::json::parse(in);
  ASSERT_GE(runs.size(), 50u);
  int64_t stops = 0;
  for (const auto& run : runs) {
    LossScaler scaler({.initial = run["initial"],
                       .window = run["window"],
                       .hysteresis = run["hysteresis"],
                       .minimum = run["minimum"]});
    std::vector<double> scales;
    std::vector<int64_t> stopped;
    const std::string overflow = run["overflow"];
    for (const char step : overflow) {
      if (!GoesOn(scaler, step == 'x')) {
        stopped.push_back(static_cast<int64_t>(scales.size()));
      }
      scales.push_back(scaler.scale());
    }
    EXPECT_EQ(scales, run["scales"].get<std::vector<double>>()) << run;
    EXPECT_EQ(stopped, run["stops"].get<std::vector<int64_t>>()) << run;
    stops += static_cast<int64_t>(stopped.size());
  }
  EXPECT_GT(stops, 20);
}

TEST(LossScaler, GoesOnWhereItWasRestored) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {
    const LossScaleOptions options = {
        .window = static_cast<int64_t>(random() % 5 + 1), .hysteresis = 3};
    LossScaler whole(options);
    LossScaler restored(options);
    const uint64_t cut = random() % 40;
    for (uint64_t step = 0; step < 40; ++step) {
      if (step == cut) restored.Restore(whole.state());
      const bool overflow = random() % 3 == 0;
      const bool expected = GoesOn(whole, overflow);
      if (step < cut) continue;
      EXPECT_EQ(GoesOn(restored, overflow), expected);
      EXPECT_EQ(restored.state(), whole.state());
    }
  }
}

TEST(LossScaler, LeavesAScaleThatIsNotDynamicAlone) {
  LossScaler scaler({.dynamic = false, .initial = 128, .window = 1});
  for (int step = 0; step < 10; ++step) {
    EXPECT_TRUE(GoesOn(scaler, step % 2 == 0));
    EXPECT_EQ(scaler.scale(), 128);
  }
  scaler.Restore({.scale = 2});
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, StaysBelowWhatFp32CanHold) {
  LossScaler scaler({.window = 1});
  for (int step = 0; step < 1000; ++step) EXPECT_TRUE(GoesOn(scaler, false));
  EXPECT_EQ(scaler.scale(), 0x1p100);
}

// The options are the config's now, the state the old run's.
TEST(LossScaler, TakesARestoredStateWithinItsLimits) {
  LossScaler scaler({.hysteresis = 2, .minimum = 8});
  scaler.Restore({.scale = 2, .good_steps = 5, .hysteresis_left = 4});
  EXPECT_EQ(
      scaler.state(),
      (LossScaleState{.scale = 8, .good_steps = 5, .hysteresis_left = 2}));
}

}  // namespace
}  // namespace castor
