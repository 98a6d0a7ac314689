#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/bias_gradient/bias_gradient.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using BiasGradientOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, BiasGradientOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(BiasGradientOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (int64_t rows : {0, 1, 31, 32, 33, 512, 513, 1024, 2100}) {
      for (int64_t channels : {1, 16, 31, 32, 40, 70}) {
        for (bool accumulate : {false, true}) {
          const GuardedBuffer dy = Normal(dtype, rows * channels, 1);
          const GuardedBuffer before = Normal(dtype, channels, 0);
          GuardedBuffer expected = Like(before, 0);
          ASSERT_TRUE(
              kernels::Run(host_, BiasGradientArgs{.dtype = dtype,
                                                   .rows = rows,
                                                   .channels = channels,
                                                   .dy = dy.data(),
                                                   .db = expected.data(),
                                                   .accumulate = accumulate})
                  .ok());
          InEveryOrder([&] {
            GuardedBuffer db = Like(before, 1);
            OnDevice on;
            ASSERT_TRUE(kernels::Run(on.context(),
                                     BiasGradientArgs{.dtype = dtype,
                                                      .rows = rows,
                                                      .channels = channels,
                                                      .dy = on.In(dy),
                                                      .db = on.Out(db),
                                                      .accumulate = accumulate})
                            .ok());
            ASSERT_TRUE(on.Finish().ok());
            ExpectSame(db, expected, "BiasGradient");
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
