#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/gelu/gelu.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using GeluOnGpu = NearOperatorTest;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_F(GeluOnGpu, IsNearTheHosts) {
  for (DType dtype : kAllTypes) {
    constexpr int64_t kSize = 3001;
    GuardedBuffer x = Normal(dtype, kSize, 3);
    const GuardedBuffer dy = Normal(dtype, kSize);
    const double odd[] = {0,    -0.0,  1e-30, 60,    -60,
                          1e30, -1e30, kNan,  88.8f, -13.2};
    for (int64_t i = 0; i < 10; ++i) {
      // Finite in fp16, too.
      x.Set(i, dtype == DType::kFloat16 && std::abs(odd[i]) > kLargestFloat16
                   ? std::copysign(kLargestFloat16, odd[i])
                   : odd[i]);
    }
    GuardedBuffer y(dtype, kSize), dx(dtype, kSize);
    ASSERT_TRUE(kernels::Run(host_, GeluForwardArgs{.dtype = dtype,
                                                    .size = kSize,
                                                    .x = x.data(),
                                                    .y = y.data()})
                    .ok());
    ASSERT_TRUE(kernels::Run(host_, GeluBackwardArgs{.dtype = dtype,
                                                     .size = kSize,
                                                     .x = x.data(),
                                                     .dy = dy.data(),
                                                     .dx = dx.data()})
                    .ok());
    GuardedBuffer y2(dtype, kSize), dx2(dtype, kSize);
    RunInEveryOrder({&y2, &dx2}, [&](OnDevice& on, const auto& out) {
      const void* px = on.In(x);
      absl::Status status = kernels::Run(
          on.context(),
          GeluForwardArgs{.dtype = dtype, .size = kSize, .x = px, .y = out[0]});
      status.Update(kernels::Run(on.context(), GeluBackwardArgs{.dtype = dtype,
                                                                .size = kSize,
                                                                .x = px,
                                                                .dy = on.In(dy),
                                                                .dx = out[1]}));
      return status;
    });
    // A few ulps of exp, or one rounding to 16 bits; of fp16's least numbers.
    const double tolerance =
        dtype == DType::kFloat32 ? 0x1p-20 : 2 * UnitRoundoff(dtype);
    const double floor = dtype == DType::kFloat16 ? 0x1p-14 : 1e-30;
    ExpectNear(y2, y, tolerance, floor, "GeluForward");
    // The slope passes through 0.
    ExpectNear(dx2, dx, tolerance, 0.25, "GeluBackward");
  }
}

}  // namespace
}  // namespace castor::kernels
