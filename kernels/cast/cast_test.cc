#include "kernels/cast/cast.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

// kernels/cpu/convert_test.cc looks at every tie of a conversion.
TEST(Cast, RoundsToTheTypeFromEveryOther) {
  const int64_t size = 70'003;
  std::mt19937_64 random(7);
  GuardedBuffer bits(DType::kFloat32, size);
  for (int64_t i = 0; i < size; ++i) {
    const float any = std::bit_cast<float>(static_cast<uint32_t>(random()));
    // Half of them in fp16's range and around its least numbers.
    bits.Set(i, i % 2 == 0 ? any : std::remainder(any, 1.0f));
  }
  for (DType from : kAllTypes) {
    for (DType to : kAllTypes) {
      GuardedBuffer x(from, size, 1), expected(to, size);
      x.CopyFrom(bits);
      expected.CopyFrom(x);
      ForEachTarget([&](const char* target) {
        ForEachPool([&](const ExecContext& context) {
          GuardedBuffer y(to, size, 3);
          ASSERT_TRUE(kernels::Run(context, CastArgs{.size = size,
                                                     .from = from,
                                                     .x = x.data(),
                                                     .to = to,
                                                     .y = y.data()})
                          .ok());
          ASSERT_TRUE(y.GuardsIntact());
          ASSERT_TRUE(y.SameBits(expected))
              << target << " " << DTypeName(from) << " " << DTypeName(to);
        });
      });
    }
  }
}

TEST(Cast, CopiesWhereTypesAreEqual) {
  std::mt19937_64 random(6);
  ThreadPool pool(2);
  for (DType dtype : kAllTypes) {
    for (int64_t size : kTestSizes) {
      GuardedBuffer x(dtype, size, 1), y(dtype, size, 2);
      x.FillNormal(random);
      ASSERT_TRUE(kernels::Run(ExecContext{&pool}, CastArgs{.size = size,
                                                            .from = dtype,
                                                            .x = x.data(),
                                                            .to = dtype,
                                                            .y = y.data()})
                      .ok());
      EXPECT_TRUE(y.SameBits(x));
      EXPECT_TRUE(y.GuardsIntact());
      ASSERT_TRUE(kernels::Run(ExecContext{&pool}, CastArgs{.size = size,
                                                            .from = dtype,
                                                            .x = x.data(),
                                                            .to = dtype,
                                                            .y = x.data()})
                      .ok());
      EXPECT_TRUE(y.SameBits(x));
    }
  }
}

}  // namespace
}  // namespace castor::kernels
