#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/cast/cast.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using CastOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, CastOnGpu, testing::Bool(), AlignmentName);

TEST_P(CastOnGpu, GivesTheHostsBits) {
  for (DType from : kAllTypes) {
    for (DType to : kAllTypes) {
      for (int64_t size : kGpuTestSizes) {
        GuardedBuffer x = Normal(from, size, 1);
        if (size > 3) {
          x.Set(1, std::numeric_limits<double>::quiet_NaN());
          x.Set(2, std::numeric_limits<double>::infinity());
          x.Set(3, 1e-42);
        }
        GuardedBuffer expected(to, size);
        ASSERT_TRUE(kernels::Run(host_, CastArgs{.size = size,
                                                 .from = from,
                                                 .x = x.data(),
                                                 .to = to,
                                                 .y = expected.data()})
                        .ok());
        InEveryOrder([&] {
          GuardedBuffer y = Empty(to, size, 3);
          OnDevice on;
          ASSERT_TRUE(kernels::Run(on.context(), CastArgs{.size = size,
                                                          .from = from,
                                                          .x = on.In(x),
                                                          .to = to,
                                                          .y = on.Out(y)})
                          .ok());
          ASSERT_TRUE(on.Finish().ok());
          ExpectSame(y, expected, "Cast");
        });
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
