#include "run/program/speculation_gate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

namespace castor {
namespace {

struct Counts {
  int64_t ahead = 0;
  int64_t misses = 0;  // of these
};

// The gate learns of a step when the next but one begins, as a trainer does.
Counts RunGate(int64_t steps, const std::function<bool(int64_t)>& missed,
               SpeculationGate gate = SpeculationGate()) {
  Counts counts;
  bool before = false, last = false;
  for (int64_t i = 0; i < steps; ++i) {
    if (i >= 2) gate.AddStep(missed(i - 2), before);
    before = last;
    last = gate.open();
    counts.ahead += last;
    counts.misses += last && missed(i);
  }
  return counts;
}

TEST(SpeculationGate, OpensAfterTwoStepsThatWereNotClipped) {
  SpeculationGate gate;
  EXPECT_FALSE(gate.open());
  gate.AddStep(/*missed=*/false, /*ahead=*/false);
  EXPECT_FALSE(gate.open());
  gate.AddStep(false, false);
  EXPECT_TRUE(gate.open());
  gate.AddStep(true, true);
  EXPECT_FALSE(gate.open());
  // Four in a row from then on, as that one was in vain.
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(gate.open());
    gate.AddStep(false, false);
  }
  EXPECT_TRUE(gate.open());
  // Four ahead that were not, and it waits for two again.
  for (int i = 0; i < 4; ++i) gate.AddStep(false, true);
  gate.AddStep(true, false);
  gate.AddStep(false, false);
  EXPECT_FALSE(gate.open());
  gate.AddStep(false, false);
  EXPECT_TRUE(gate.open());
}

TEST(SpeculationGate, RunsNothingAheadThatIsAlwaysInVain) {
  EXPECT_EQ(RunGate(10'000, [](int64_t) { return true; }).ahead, 0);
}

TEST(SpeculationGate, RunsNearlyAllAheadThatIsNeverInVain) {
  EXPECT_EQ(RunGate(1000, [](int64_t) { return false; }).ahead, 997);
}

TEST(SpeculationGate, PaysLittleWhereMissesComeAgainAndAgain) {
  // For any distance of misses that come evenly, the steps in vain are as many
  // as the wait doubles, twice since a step is known late, or one in four.
  for (int64_t every = 1; every < 40; ++every) {
    const Counts counts =
        RunGate(10'000, [&](int64_t i) { return i % every == 0; });
    EXPECT_LE(counts.misses, 22 + counts.ahead / 4) << every;
  }
}

TEST(SpeculationGate, TellsTheShareOfMisses) {
  SpeculationGate gate(0);
  EXPECT_TRUE(gate.open());
  EXPECT_EQ(gate.miss_rate(), 0);
  gate.AddStep(true, true);
  EXPECT_EQ(gate.miss_rate(), 1);
  gate.AddStep(false, true);
  EXPECT_EQ(gate.miss_rate(), 0.5);
  gate.AddStep(true, false);  // nothing ran ahead
  EXPECT_EQ(gate.miss_rate(), 0.5);
  for (int i = 0; i < 1000; ++i) gate.AddStep(false, true);
  EXPECT_LT(gate.miss_rate(), 1e-9);
}

}  // namespace
}  // namespace castor
