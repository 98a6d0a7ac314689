#include "kernels/copy_rows/copy_rows.h"

#include <cstdint>
#include <random>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

TEST(CopyRows, CopiesPartsOfRowsAndTouchesNothingElse) {
  std::mt19937_64 random(5);
  ForEachPool([&](const ExecContext& context) {
    for (DType dtype : kAllTypes) {
      for (int64_t rows : {0, 1, 3, 100}) {
        for (int64_t columns : {0, 1, 7, 64, 1000}) {
          const int64_t x_stride = columns + 3, y_stride = columns + 1;
          GuardedBuffer x(dtype, rows * x_stride, 1);
          GuardedBuffer y(dtype, rows * y_stride);
          x.FillNormal(random);
          y.FillNormal(random);
          GuardedBuffer expected(dtype, rows * y_stride);
          for (int64_t i = 0; i < rows * y_stride; ++i) {
            const int64_t r = i / y_stride, c = i % y_stride;
            expected.Set(i, static_cast<float>(c < columns ? x[r * x_stride + c]
                                                           : y[i]));
          }
          ASSERT_TRUE(kernels::Run(context, CopyRowsArgs{.dtype = dtype,
                                                         .rows = rows,
                                                         .columns = columns,
                                                         .x_stride = x_stride,
                                                         .y_stride = y_stride,
                                                         .x = x.data(),
                                                         .y = y.data()})
                          .ok());
          ASSERT_TRUE(y.GuardsIntact());
          ASSERT_TRUE(y.SameBits(expected)) << rows << " x " << columns;
        }
      }
    }
  });
}

TEST(CopyRows, RefusesRowsThatOverlap) {
  CopyRowsArgs args = {.rows = 2, .columns = 4, .x_stride = 4, .y_stride = 3};
  EXPECT_EQ(args.Check().code(), absl::StatusCode::kInvalidArgument);
  args.y_stride = 4;
  EXPECT_TRUE(args.Check().ok());
  args.rows = -1;
  EXPECT_EQ(args.Check().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor::kernels
