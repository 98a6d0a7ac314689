#include "memory/plan/policy/side_choices.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/plan/residency/use_index.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

constexpr double kState = 1024;

// Chunks of these many states, used one after the other.
StepTrace Chunks(const std::vector<int64_t>& states) {
  TraceBuilder builder;
  for (const int64_t count : states) {
    builder.Chunk(256, count * static_cast<int64_t>(kState));
  }
  for (size_t c = 0; c < states.size(); ++c) {
    builder.Read({static_cast<int64_t>(c)});
  }
  return builder.Build();
}

// "D" for each chunk on the device's side, "." for each other one.
std::string Shown(const std::vector<Side>& side) {
  std::string shown;
  for (const Side one : side) shown += one == Side::kDevice ? 'D' : '.';
  return shown;
}

Admission Admitted(const StepTrace& trace, int64_t fewest = 0) {
  Admission admission;
  admission.order = DeviceSideOrder(trace);
  admission.fewest = fewest;
  return admission;
}

TEST(FirstSides, AreThoseThatFit) {
  const StepTrace trace = Chunks({1, 4, 1, 1, 1});
  const Admission admission = Admitted(trace);
  EXPECT_EQ(Shown(FirstSides(trace, admission, 3 * kState, false)), "D....");
  EXPECT_EQ(Shown(FirstSides(trace, admission, 3 * kState, true)), "D.DD.");
  EXPECT_EQ(Shown(FirstSides(trace, admission, 0, true)), ".....");
  EXPECT_EQ(Shown(FirstSides(trace, Admitted(trace, 2), 0, true)), "DD...");
}

TEST(SpreadSides, AreEvenlyOverTheRest) {
  const StepTrace trace = Chunks({1, 1, 1, 1, 1, 1, 1, 1});
  const Admission admission = Admitted(trace);
  EXPECT_EQ(Shown(SpreadSides(trace, admission, 0, 4 * kState)), "D.D.D.D.");
  EXPECT_EQ(Shown(SpreadSides(trace, admission, 2 * kState, 4 * kState)),
            "DD.D..D.");
  EXPECT_EQ(Shown(SpreadSides(trace, admission, 0, 8 * kState)), "DDDDDDDD");
  EXPECT_EQ(Shown(SpreadSides(trace, admission, 0, kState / 2)), "........");
}

TEST(SpreadSides, StayWithinTheirBytes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 3 + static_cast<int64_t>(seed % 20);
    const StepTrace trace = ArbitraryTrace(options, seed);
    const Admission admission = Admitted(trace);
    double all = 0;
    for (const int64_t c : admission.order) {
      all += static_cast<double>(OptimizerBlock(trace.chunks[c]));
    }
    for (const double share : {0.1, 0.5, 0.9}) {
      double taken = 0;
      const std::vector<Side> side =
          SpreadSides(trace, admission, 0.4 * share * all, share * all);
      for (size_t c = 0; c < side.size(); ++c) {
        if (side[c] == Side::kHost) continue;
        EXPECT_GT(trace.chunks[c].optimizer_bytes, 0);
        taken += static_cast<double>(OptimizerBlock(trace.chunks[c]));
      }
      EXPECT_LE(taken, share * all) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace castor
