#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

// The operands of a shape and, in `out`, what kernels make of them.
struct Operands {
  const void *x, *dy, *gamma, *residual;
  void *y, *dx, *plain_dx, *dgamma, *sum;
  float* rstd;
};

absl::Status RunAll(const ExecContext& context, const RmsNormShape& shape,
                    const Operands& on) {
  const float offset = 1;
  absl::Status status =
      kernels::Run(context, RmsNormForwardArgs{.shape = shape,
                                               .epsilon = 1e-5f,
                                               .offset = offset,
                                               .x = on.x,
                                               .gamma = on.gamma,
                                               .y = on.y,
                                               .rstd = on.rstd});
  RmsNormBackwardInputArgs input = {.shape = shape,
                                    .offset = offset,
                                    .dy = on.dy,
                                    .x = on.x,
                                    .gamma = on.gamma,
                                    .rstd = on.rstd,
                                    .residual = on.residual,
                                    .dx = on.dx};
  status.Update(kernels::Run(context, input));
  input.residual = nullptr;
  input.dx = on.plain_dx;
  status.Update(kernels::Run(context, input));
  RmsNormBackwardParametersArgs parameters = {.shape = shape,
                                              .dy = on.dy,
                                              .x = on.x,
                                              .rstd = on.rstd,
                                              .dgamma = on.dgamma};
  status.Update(kernels::Run(context, parameters));
  parameters.dgamma = on.sum;
  parameters.accumulate = true;
  status.Update(kernels::Run(context, parameters));
  return status;
}

using RmsNormOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, RmsNormOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(RmsNormOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (const auto& [rows, channels] : NormSizes(dtype)) {
      const RmsNormShape shape{rows, channels, dtype};
      const int64_t size = rows * channels;
      const GuardedBuffer x = Normal(dtype, size, 1);
      const GuardedBuffer dy = Normal(dtype, size, 1);
      const GuardedBuffer residual = Normal(dtype, size, 2);
      const GuardedBuffer gamma = Normal(dtype, channels, 3);
      GuardedBuffer y = Empty(dtype, size), dx = Like(residual, 0);
      GuardedBuffer plain = Empty(dtype, size), sum = Like(gamma, 0);
      GuardedBuffer dgamma = Empty(dtype, channels);
      GuardedBuffer rstd(DType::kFloat32, rows);
      ASSERT_TRUE(RunAll(host_, shape,
                         {.x = x.data(),
                          .dy = dy.data(),
                          .gamma = gamma.data(),
                          .residual = dx.data(),
                          .y = y.data(),
                          .dx = dx.data(),
                          .plain_dx = plain.data(),
                          .dgamma = dgamma.data(),
                          .sum = sum.data(),
                          .rstd = rstd.floats()})
                      .ok());
      InEveryOrder([&] {
        GuardedBuffer y2 = Empty(dtype, size, 3), dx2 = Like(residual, 2);
        GuardedBuffer plain2 = Empty(dtype, size, 1), sum2 = Like(gamma, 1);
        GuardedBuffer dgamma2 = Empty(dtype, channels, 1);
        GuardedBuffer rstd2(DType::kFloat32, rows);
        OnDevice on;
        void* in_place = on.Out(dx2);
        ASSERT_TRUE(RunAll(on.context(), shape,
                           {.x = on.In(x),
                            .dy = on.In(dy),
                            .gamma = on.In(gamma),
                            .residual = in_place,
                            .y = on.Out(y2),
                            .dx = in_place,
                            .plain_dx = on.Out(plain2),
                            .dgamma = on.Out(dgamma2),
                            .sum = on.Out(sum2),
                            .rstd = on.OutFloats(rstd2)})
                        .ok());
        ASSERT_TRUE(on.Finish().ok());
        ExpectSame(rstd2, rstd, "rstd");
        ExpectSame(y2, y, "RmsNormForward");
        ExpectSame(dx2, dx, "RmsNormBackwardInput with residual");
        ExpectSame(plain2, plain, "RmsNormBackwardInput");
        ExpectSame(dgamma2, dgamma, "dgamma");
        ExpectSame(sum2, sum, "dgamma, accumulated");
      });
    }
  }
}

}  // namespace
}  // namespace castor::kernels
