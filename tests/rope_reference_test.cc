// Rotary position embedding, from the configuration to turned channels, against
// transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/rotary/rotary.h"
#include "kernels/run.h"
#include "models/rope/rope_fixture_for_test.h"
#include "models/rope/rope_table.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

// Angles up to 4: a cosine or a sine of ours is within 3 2^-24 of PyTorch's
// where the frequencies are the same, and 4 * 4 * 2^-24 more where they are not
// (models/rope/rope_table_test.cc). The products and their sum are then rounded
// alike.
constexpr double kTolerance = 20 * 0x1p-24;

TEST(RopeReference, TurnsQueriesAsTransformersDoes) {
  ThreadPool pool(1);
  for (const RopeCase& c : RopeCases()) {
    SCOPED_TRACE(c.name);
    Rope rope;
    ASSERT_TRUE(c.Read(&rope).ok());
    std::vector<float> x = c.applied["before"];
    const std::vector<float> expected = c.applied["after"];
    const int64_t head_size = c.model.head_size;
    ASSERT_EQ(static_cast<int64_t>(x.size()), 5 * 2 * head_size);
    ASSERT_EQ(expected.size(), x.size());
    const double largest =
        std::abs(*std::max_element(x.begin(), x.end(), [](float a, float b) {
          return std::abs(a) < std::abs(b);
        }));
    const std::vector<float> table = RopeTableValues(rope, 0, 5);
    ASSERT_TRUE(
        kernels::Run(ExecContext{&pool},
                     kernels::RotaryArgs{.rows = 5,
                                         .length = 5,
                                         .heads = 2,
                                         .head_size = head_size,
                                         .channels = rope.rotary_channels(),
                                         .stride = 2 * head_size,
                                         .cos = table.data(),
                                         .sin = table.data() + table.size() / 2,
                                         .x = x.data(),
                                         .y = x.data()})
            .ok());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(x[i], expected[i],
                  2 * largest * kTolerance * rope.attention_factor())
          << i;
    }
  }
}

}  // namespace
}  // namespace castor::models
