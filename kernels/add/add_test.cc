#include "kernels/add/add.h"

#include <cstdint>
#include <random>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

TEST(Add, RoundsTheSumOnce) {
  std::mt19937_64 random(3);
  ForEachTarget([&](const char* target) {
    ForEachPool([&](const ExecContext& context) {
      for (DType dtype : kAllTypes) {
        for (int64_t size : kTestSizes) {
          GuardedBuffer a(dtype, size, 1), b(dtype, size, 2), y(dtype, size);
          a.FillNormal(random);
          b.FillNormal(random, 100);
          ASSERT_TRUE(kernels::Run(context, AddArgs{.dtype = dtype,
                                                    .size = size,
                                                    .a = a.data(),
                                                    .b = b.data(),
                                                    .y = y.data()})
                          .ok());
          ASSERT_TRUE(y.GuardsIntact());
          GuardedBuffer expected(dtype, size);
          for (int64_t i = 0; i < size; ++i) {
            expected.Set(i,
                         static_cast<float>(a[i]) + static_cast<float>(b[i]));
          }
          ASSERT_TRUE(y.SameBits(expected)) << target << " " << size;
          ASSERT_TRUE(kernels::Run(context, AddArgs{.dtype = dtype,
                                                    .size = size,
                                                    .a = a.data(),
                                                    .b = b.data(),
                                                    .y = b.data()})
                          .ok());
          ASSERT_TRUE(b.SameBits(expected)) << "in place";
        }
      }
    });
  });
}

}  // namespace
}  // namespace castor::kernels
