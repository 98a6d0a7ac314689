#include "kernels/bias_gradient/bias_gradient.h"

#include <cmath>
#include <cstdint>
#include <random>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

TEST(BiasGradient, SumsRowsOnEveryTargetAlike) {
  std::mt19937_64 random(5);
  for (DType dtype : kAllTypes) {
    for (int64_t rows : {0, 1, 31, 33, 700}) {
      for (int64_t channels : {1, 15, 64, 65, 200}) {
        for (bool accumulate : {false, true}) {
          GuardedBuffer dy(dtype, rows * channels, rows % 3);
          GuardedBuffer before(dtype, channels);
          dy.FillNormal(random);
          before.FillNormal(random);
          GuardedBuffer first(dtype, channels);
          bool have_first = false;
          ForEachTarget([&](const char* target) {
            ForEachPool([&](const ExecContext& context) {
              GuardedBuffer db(dtype, channels, 1);
              if (accumulate) db.CopyFrom(before);
              ASSERT_TRUE(
                  kernels::Run(context,
                               BiasGradientArgs{.dtype = dtype,
                                                .rows = rows,
                                                .channels = channels,
                                                .dy = dy.data(),
                                                .db = db.data(),
                                                .accumulate = accumulate})
                      .ok());
              ASSERT_TRUE(db.GuardsIntact());
              if (!have_first) {
                first.CopyFrom(db);
                have_first = true;
              }
              ASSERT_TRUE(db.SameBits(first)) << target;
            });
          });
          for (int64_t c = 0; c < channels; ++c) {
            double sum = accumulate ? before[c] : 0, size = std::abs(sum);
            for (int64_t n = 0; n < rows; ++n) {
              sum += dy[n * channels + c];
              size += std::abs(dy[n * channels + c]);
            }
            // At most 32 roundings within a tile, one per tile, one at the end.
            const double roundings = 33 + static_cast<double>(rows) / 32;
            ASSERT_NEAR(first[c], sum,
                        size * roundings * 0x1p-24 + RoundingError(dtype, sum));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
