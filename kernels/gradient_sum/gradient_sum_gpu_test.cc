#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "gtest/gtest.h"
#include "kernels/gradient_sum/gradient_sum.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

class GradientSumOnGpu : public ExactOperatorTest {
 protected:
  // Any bits at all: denormals, infinities and NaNs among them.
  GuardedBuffer AnyBits(DType dtype, int64_t size) {
    GuardedBuffer x = Empty(dtype, size, 1);
    for (int64_t i = 0; i < size; ++i) {
      x.Set(i, std::bit_cast<float>(static_cast<uint32_t>(random_() >> 32)));
    }
    return x;
  }
};

INSTANTIATE_TEST_SUITE_P(Operands, GradientSumOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(GradientSumOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (int64_t size : {0, 1, 2047, 2048, 2049, 7000}) {
      for (bool assign : {false, true}) {
        for (bool restore : {false, true}) {
          const GuardedBuffer gradient = AnyBits(dtype, size);
          const GuardedBuffer before = AnyBits(DType::kFloat32, size);
          GuardedBuffer master = AnyBits(DType::kFloat32, size);
          GuardedBuffer payload = Like(gradient, 1), sum = Like(before, 1);
          ASSERT_TRUE(
              kernels::Run(host_,
                           AccumulateGradientArgs{.size = size,
                                                  .dtype = dtype,
                                                  .payload = payload.data(),
                                                  .sum = sum.floats(),
                                                  .master = master.floats(),
                                                  .assign = assign,
                                                  .restore = restore})
                  .ok());
          InEveryOrder([&] {
            GuardedBuffer payload2 = Like(gradient, 1);
            GuardedBuffer sum2 = Like(before, 1);
            OnDevice on;
            ASSERT_TRUE(kernels::Run(on.context(),
                                     AccumulateGradientArgs{
                                         .size = size,
                                         .dtype = dtype,
                                         .payload = on.Out(payload2),
                                         .sum = on.OutFloats(sum2),
                                         .master = on.InFloats(master),
                                         .assign = assign,
                                         .restore = restore})
                            .ok());
            ASSERT_TRUE(on.Finish().ok());
            ExpectSame(payload2, payload, "payload");
            ExpectSame(sum2, sum, "sum");
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
