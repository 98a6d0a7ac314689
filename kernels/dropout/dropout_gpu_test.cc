#include <cstdint>

#include "base/philox.h"
#include "gtest/gtest.h"
#include "kernels/dropout/dropout.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

constexpr RandomKey kKey{0x1234567890abcdefu, 77};

using DropoutOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, DropoutOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(DropoutOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (int64_t size : kGpuTestSizes) {
      for (float p : {0.0f, 0.1f, 0.75f}) {
        for (bool residual : {false, true}) {
          const GuardedBuffer x = Normal(dtype, size, 1);
          const GuardedBuffer r = Normal(dtype, size, 3);
          GuardedBuffer expected(dtype, size);
          ASSERT_TRUE(
              kernels::Run(
                  host_, DropoutArgs{.dtype = dtype,
                                     .size = size,
                                     .probability = p,
                                     .key = kKey,
                                     .x = x.data(),
                                     .residual = residual ? r.data() : nullptr,
                                     .y = expected.data()})
                  .ok());
          InEveryOrder([&] {
            GuardedBuffer y = Empty(dtype, size, 2);
            OnDevice on;
            ASSERT_TRUE(kernels::Run(on.context(),
                                     DropoutArgs{.dtype = dtype,
                                                 .size = size,
                                                 .probability = p,
                                                 .key = kKey,
                                                 .x = on.In(x),
                                                 .residual = residual ? on.In(r)
                                                                      : nullptr,
                                                 .y = on.Out(y)})
                            .ok());
            ASSERT_TRUE(on.Finish().ok());
            ExpectSame(y, expected, "Dropout");
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
