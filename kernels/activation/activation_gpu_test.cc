#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/activation/activation.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using ActivationOnGpu = NearOperatorTest;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Forward, and backward of the same operands; `up` and `dup` may be null.
absl::Status RunBoth(const ExecContext& context, Activation kind, DType dtype,
                     int64_t size, const void* x, const void* up,
                     const void* dy, void* y, void* dx, void* dup) {
  absl::Status status =
      kernels::Run(context, ActivationForwardArgs{.kind = kind,
                                                  .dtype = dtype,
                                                  .size = size,
                                                  .x = x,
                                                  .up = up,
                                                  .y = y});
  status.Update(kernels::Run(context, ActivationBackwardArgs{.kind = kind,
                                                             .dtype = dtype,
                                                             .size = size,
                                                             .x = x,
                                                             .up = up,
                                                             .dy = dy,
                                                             .dx = dx,
                                                             .dup = dup}));
  return status;
}

TEST_F(ActivationOnGpu, IsNearTheHosts) {
  for (const Activation kind : kAllActivations) {
    for (const DType dtype : kAllTypes) {
      for (const bool gated : {false, true}) {
        // Blocks have whole runs of so many elements, and some that are left.
        constexpr int64_t kSize = 3001;
        GuardedBuffer x = Normal(dtype, kSize, 3);
        const GuardedBuffer up = Normal(dtype, kSize);
        const GuardedBuffer dy = Normal(dtype, kSize);
        const double odd[] = {0,    -0.0,  1e-30, 60,    -60,
                              1e30, -1e30, kNan,  88.8f, -13.2};
        for (int64_t i = 0; i < 10; ++i) {
          // Finite in fp16, too, also times `up`.
          const bool too_large =
              dtype == DType::kFloat16 && std::abs(odd[i]) > kLargestFloat16;
          x.Set(i, too_large ? std::copysign(8192, odd[i]) : odd[i]);
        }
        GuardedBuffer y(dtype, kSize), dx(dtype, kSize), dup(dtype, kSize);
        ASSERT_TRUE(RunBoth(host_, kind, dtype, kSize, x.data(),
                            gated ? up.data() : nullptr, dy.data(), y.data(),
                            dx.data(), gated ? dup.data() : nullptr)
                        .ok());
        GuardedBuffer y2(dtype, kSize), dx2(dtype, kSize), dup2(dtype, kSize);
        RunInEveryOrder({&y2, &dx2, &dup2}, [&](OnDevice& on, const auto& out) {
          return RunBoth(on.context(), kind, dtype, kSize, on.In(x),
                         gated ? on.In(up) : nullptr, on.In(dy), out[0], out[1],
                         gated ? out[2] : nullptr);
        });
        if (kind == Activation::kRelu) {
          ExpectSame(y2, y, "forward");
          ExpectSame(dx2, dx, "dx");
          ExpectSame(dup2, dup, "dup");
          continue;
        }
        // A few ulps of exp, or one rounding to 16 bits; of fp16's least
        // numbers. The exact GELU's e^(-x^2 / 2) is off by x^2 ulps on both
        // sides, but x^3 e^(-x^2 / 2) is at most 1.2.
        const double tolerance =
            dtype == DType::kFloat32 ? 0x1p-20 : 2 * UnitRoundoff(dtype);
        double floor = dtype == DType::kFloat16 ? 0x1p-14 : 1e-30;
        if (kind == Activation::kGelu) floor = 0.25;
        ExpectNear(y2, y, tolerance, floor, "forward");
        ExpectNear(dup2, dup, tolerance, floor, "dup");
        // The slope passes through 0, where the error of exp (three ulps, if
        // ex2.approx is off by two) is of the size of dy.
        ExpectNear(dx2, dx, tolerance, 0.5, "dx");
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
