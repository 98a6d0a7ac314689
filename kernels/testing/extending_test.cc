// The operator of docs/extending.md, compiled from the page. BUILD includes its
// header here, which is no file of the repository.
#include <cstdint>
#include <random>

#include "gtest/gtest.h"
#include "kernels/testing/gpu_operator_test.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

TEST(ExtendingPage, OperatorIsRightOnBothDevices) {
  std::mt19937_64 random(1);
  for (DType dtype : kAllTypes) {
    for (int64_t size : kGpuTestSizes) {
      GuardedBuffer x(dtype, size, 1), expected(dtype, size);
      x.FillNormal(random);
      for (int64_t i = 0; i < size; ++i) {
        expected.Set(i, static_cast<float>(x[i]) * 0.3f);
      }
      ScaleArgs args = {.dtype = dtype, .size = size, .factor = 0.3f};
      ForEachPool([&](const ExecContext& context) {
        GuardedBuffer y(dtype, size, 2);
        args.x = x.data();
        args.y = y.data();
        ASSERT_TRUE(args.Check().ok());
        ASSERT_TRUE(args.RunOnCpu(context).ok());
        ExpectSame(y, expected, "host");
      });
      TestDevice::Get()->InEveryOrder([&] {
        GuardedBuffer y(dtype, size, 2);
        OnDevice on;
        args.x = on.In(x);
        args.y = on.Out(y);
        ASSERT_TRUE(args.RunOnGpu(on.context()).ok());
        ASSERT_TRUE(on.Finish().ok());
        ExpectSame(y, expected, "GPU");
      });
    }
  }
  EXPECT_FALSE(ScaleArgs{.size = -1}.Check().ok());
}

}  // namespace
}  // namespace castor::kernels
