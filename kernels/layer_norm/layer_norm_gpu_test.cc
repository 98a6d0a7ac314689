#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using LayerNormOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, LayerNormOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(LayerNormOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (const auto& [rows, channels] : NormSizes(dtype)) {
      const LayerNormShape shape{rows, channels, dtype};
      const int64_t size = rows * channels;
      const GuardedBuffer x = Normal(dtype, size, 1);
      const GuardedBuffer dy = Normal(dtype, size, 1);
      const GuardedBuffer r = Normal(dtype, size, 2);
      const GuardedBuffer gamma = Normal(dtype, channels, 1);
      const GuardedBuffer beta = Normal(dtype, channels, 3);
      GuardedBuffer y(dtype, size), dx(dtype, size), plain(dtype, size);
      GuardedBuffer mean(DType::kFloat32, rows), rstd(DType::kFloat32, rows);
      GuardedBuffer dgamma(dtype, channels), dbeta = Like(beta, 0);
      ASSERT_TRUE(
          kernels::Run(host_, LayerNormForwardArgs{.shape = shape,
                                                   .epsilon = 1e-5f,
                                                   .x = x.data(),
                                                   .gamma = gamma.data(),
                                                   .beta = beta.data(),
                                                   .y = y.data(),
                                                   .mean = mean.floats(),
                                                   .rstd = rstd.floats()})
              .ok());
      const auto backward = [&](const void* residual, GuardedBuffer& out) {
        return kernels::Run(host_,
                            LayerNormBackwardInputArgs{.shape = shape,
                                                       .dy = dy.data(),
                                                       .x = x.data(),
                                                       .gamma = gamma.data(),
                                                       .mean = mean.floats(),
                                                       .rstd = rstd.floats(),
                                                       .residual = residual,
                                                       .dx = out.data()});
      };
      ASSERT_TRUE(backward(r.data(), dx).ok());
      ASSERT_TRUE(backward(nullptr, plain).ok());
      ASSERT_TRUE(
          kernels::Run(host_,
                       LayerNormBackwardParametersArgs{.shape = shape,
                                                       .dy = dy.data(),
                                                       .x = x.data(),
                                                       .mean = mean.floats(),
                                                       .rstd = rstd.floats(),
                                                       .dgamma = dgamma.data()})
              .ok());
      ASSERT_TRUE(
          kernels::Run(host_,
                       LayerNormBackwardParametersArgs{.shape = shape,
                                                       .dy = dy.data(),
                                                       .x = x.data(),
                                                       .mean = mean.floats(),
                                                       .rstd = rstd.floats(),
                                                       .dbeta = dbeta.data(),
                                                       .accumulate = true})
              .ok());
      InEveryOrder([&] {
        GuardedBuffer y2 = Empty(dtype, size, 3), dx2 = Like(r, 2);
        GuardedBuffer plain2 = Empty(dtype, size, 1);
        GuardedBuffer mean2(DType::kFloat32, rows);
        GuardedBuffer rstd2(DType::kFloat32, rows);
        GuardedBuffer dgamma2 = Empty(dtype, channels, 1);
        GuardedBuffer dbeta2 = Like(beta, 0);
        OnDevice on;
        const void* px = on.In(x);
        const void* pdy = on.In(dy);
        const void* pgamma = on.In(gamma);
        float* pmean = on.OutFloats(mean2);
        float* prstd = on.OutFloats(rstd2);
        void* pdx = on.Out(dx2);
        const ExecContext& gpu = on.context();
        ASSERT_TRUE(kernels::Run(gpu, LayerNormForwardArgs{.shape = shape,
                                                           .epsilon = 1e-5f,
                                                           .x = px,
                                                           .gamma = pgamma,
                                                           .beta = on.In(beta),
                                                           .y = on.Out(y2),
                                                           .mean = pmean,
                                                           .rstd = prstd})
                        .ok());
        ASSERT_TRUE(
            kernels::Run(gpu, LayerNormBackwardInputArgs{.shape = shape,
                                                         .dy = pdy,
                                                         .x = px,
                                                         .gamma = pgamma,
                                                         .mean = pmean,
                                                         .rstd = prstd,
                                                         .residual = pdx,
                                                         .dx = pdx})
                .ok());
        ASSERT_TRUE(
            kernels::Run(gpu, LayerNormBackwardInputArgs{.shape = shape,
                                                         .dy = pdy,
                                                         .x = px,
                                                         .gamma = pgamma,
                                                         .mean = pmean,
                                                         .rstd = prstd,
                                                         .dx = on.Out(plain2)})
                .ok());
        ASSERT_TRUE(
            kernels::Run(
                gpu, LayerNormBackwardParametersArgs{.shape = shape,
                                                     .dy = pdy,
                                                     .x = px,
                                                     .mean = pmean,
                                                     .rstd = prstd,
                                                     .dgamma = on.Out(dgamma2)})
                .ok());
        ASSERT_TRUE(
            kernels::Run(
                gpu, LayerNormBackwardParametersArgs{.shape = shape,
                                                     .dy = pdy,
                                                     .x = px,
                                                     .mean = pmean,
                                                     .rstd = prstd,
                                                     .dbeta = on.Out(dbeta2),
                                                     .accumulate = true})
                .ok());
        ASSERT_TRUE(on.Finish().ok());
        ExpectSame(mean2, mean, "mean");
        ExpectSame(rstd2, rstd, "rstd");
        ExpectSame(y2, y, "LayerNormForward");
        ExpectSame(dx2, dx, "LayerNormBackwardInput with residual");
        ExpectSame(plain2, plain, "LayerNormBackwardInput");
        ExpectSame(dgamma2, dgamma, "dgamma");
        ExpectSame(dbeta2, dbeta, "dbeta");
      });
    }
  }
}

}  // namespace
}  // namespace castor::kernels
