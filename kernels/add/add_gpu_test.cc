#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/add/add.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using AddOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, AddOnGpu, testing::Bool(), AlignmentName);

TEST_P(AddOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (int64_t size : kGpuTestSizes) {
      const GuardedBuffer a = Normal(dtype, size, 1);
      const GuardedBuffer b = Normal(dtype, size, 2);
      GuardedBuffer expected(dtype, size);
      ASSERT_TRUE(kernels::Run(host_, AddArgs{.dtype = dtype,
                                              .size = size,
                                              .a = a.data(),
                                              .b = b.data(),
                                              .y = expected.data()})
                      .ok());
      InEveryOrder([&] {
        GuardedBuffer y = Empty(dtype, size, 3);
        GuardedBuffer in_place = Like(a, 1);
        OnDevice on;
        ASSERT_TRUE(kernels::Run(on.context(), AddArgs{.dtype = dtype,
                                                       .size = size,
                                                       .a = on.In(a),
                                                       .b = on.In(b),
                                                       .y = on.Out(y)})
                        .ok());
        void* p = on.Out(in_place);
        ASSERT_TRUE(kernels::Run(on.context(), AddArgs{.dtype = dtype,
                                                       .size = size,
                                                       .a = p,
                                                       .b = on.In(b),
                                                       .y = p})
                        .ok());
        ASSERT_TRUE(on.Finish().ok());
        ExpectSame(y, expected, "Add");
        ExpectSame(in_place, expected, "Add in place");
      });
    }
  }
}

}  // namespace
}  // namespace castor::kernels
