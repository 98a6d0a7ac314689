#include "run/checkpoint/best_state.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/test_files.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

// tests/fixtures/README.md says where the figures are from.
TEST(BestState, IsWhatTransformersTrainerHas) {
  const auto cases = nlohmann::json::parse(
      ReadFile("tests/fixtures/early_stopping/transformers.json"));
  ASSERT_GE(cases.size(), 100u);
  int64_t stops = 0;
  for (const auto& each : cases) {
    const BestMetric metric = each["greater_is_better"].get<bool>()
                                  ? BestMetric::kAccuracy
                                  : BestMetric::kLoss;
    BestState state;
    int64_t stop = 0;
    for (size_t i = 0; i < each["values"].size(); ++i) {
      const auto& value = each["values"][i];
      const auto number = static_cast<int64_t>(i) + 1;
      const BestState before = state;
      const bool best =
          Judge(metric, each["threshold"], 10 * number,
                value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                : value.get<double>(),
                &state);
      ASSERT_EQ(best, state.step != before.step) << each << " " << i;
      ASSERT_EQ(state.step, each["best_steps"][i]) << each << " " << i;
      ASSERT_EQ(state.evaluations, number);
      ASSERT_EQ(state.without_gain, each["counters"][i]) << each << " " << i;
      if (state.step > 0) ASSERT_EQ(state.value, each["best_values"][i]);
      if (stop == 0 && state.without_gain >= each["patience"]) stop = number;
    }
    EXPECT_EQ(stop, each["stop"]) << each;
    stops += stop > 0;
  }
  EXPECT_GT(stops, 50);
}

}  // namespace
}  // namespace castor
