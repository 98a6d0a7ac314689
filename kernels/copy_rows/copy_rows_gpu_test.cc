#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/copy_rows/copy_rows.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using CopyRowsOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, CopyRowsOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(CopyRowsOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (int64_t rows : {1, 5, 70}) {
      for (int64_t columns : {1, 33, 128}) {
        const int64_t x_stride = columns + 2, y_stride = columns + 5;
        const GuardedBuffer x = Normal(dtype, rows * x_stride, 1);
        GuardedBuffer expected = Normal(dtype, rows * y_stride, 2);
        CopyRowsArgs args = {.dtype = dtype,
                             .rows = rows,
                             .columns = columns,
                             .x_stride = x_stride,
                             .y_stride = y_stride,
                             .x = x.data(),
                             .y = expected.data()};
        const GuardedBuffer before = Like(expected, 2);
        ASSERT_TRUE(kernels::Run(host_, args).ok());
        InEveryOrder([&] {
          GuardedBuffer y = Like(before, 2);
          OnDevice on;
          args.x = on.In(x);
          args.y = on.Out(y);
          ASSERT_TRUE(kernels::Run(on.context(), args).ok());
          ASSERT_TRUE(on.Finish().ok());
          ExpectSame(y, expected, "CopyRows");
        });
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
