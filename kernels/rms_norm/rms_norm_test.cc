#include "kernels/rms_norm/rms_norm.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/run_everywhere.h"

namespace castor::kernels {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr double kUnit = 0x1p-24;

struct Case {
  RmsNormShape shape;
  float offset;
  double scale;  // of every x

  int64_t shift() const { return (shape.rows + shape.channels) % 4; }
};

void PrintTo(const Case& c, std::ostream* to) {
  *to << "[" << c.shape.rows << ", " << c.shape.channels << "] "
      << DTypeName(c.shape.dtype) << " offset " << c.offset << " scale "
      << c.scale;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (DType dtype : kAllTypes) {
    for (int64_t channels : {1, 3, 16, 31, 32, 33, 64, 100, 576, 769}) {
      for (int64_t rows : {0, 1, 5, 100}) {
        cases.push_back({{rows, channels, dtype}, 0.0f, 1});
      }
      cases.push_back({{7, channels, dtype}, 1.0f, 1});
      // The mean square far above and below epsilon.
      cases.push_back({{3, channels, dtype}, 0.0f, 200});
      cases.push_back({{3, channels, dtype}, 1.0f, 1e-4});
    }
  }
  return cases;
}

class RmsNormOracle : public testing::TestWithParam<Case> {
 protected:
  RmsNormOracle()
      : x_(Random(rows() * channels(), GetParam().scale)),
        dy_(Random(rows() * channels())),
        gamma_(Random(channels())),
        rstd_(DType::kFloat32, rows()) {
    for (int64_t n = 0; n < rows(); ++n) rstd_.Set(n, Rstd(n));
  }

  int64_t rows() const { return GetParam().shape.rows; }
  int64_t channels() const { return GetParam().shape.channels; }
  DType dtype() const { return GetParam().shape.dtype; }
  GuardedBuffer Random(int64_t size, double scale = 1) {
    GuardedBuffer x = Empty(size);
    x.FillNormal(random_, scale);
    return x;
  }
  GuardedBuffer Empty(int64_t size) const {
    return GuardedBuffer(dtype(), size, GetParam().shift());
  }
  double Rstd(int64_t n) const {
    double mean = 0;
    for (int64_t c = 0; c < channels(); ++c) {
      const double v = x_[n * channels() + c];
      mean += v * v / static_cast<double>(channels());
    }
    return 1 / std::sqrt(mean + double{kEpsilon});
  }
  double Gain(int64_t c) const { return gamma_[c] + GetParam().offset; }

  std::mt19937_64 random_{7};
  GuardedBuffer x_, dy_, gamma_;
  GuardedBuffer rstd_;  // as forward would give it
};

INSTANTIATE_TEST_SUITE_P(Cases, RmsNormOracle, testing::ValuesIn(Cases()));

TEST_P(RmsNormOracle, ForwardEqualsDouble) {
  GuardedBuffer y = Empty(x_.size()), rstd(DType::kFloat32, rows());
  RunEverywhere({&y, &rstd}, [&](const ExecContext& context, const auto& out) {
    return kernels::Run(
        context, RmsNormForwardArgs{.shape = GetParam().shape,
                                    .epsilon = kEpsilon,
                                    .offset = GetParam().offset,
                                    .x = x_.data(),
                                    .gamma = gamma_.data(),
                                    .y = out[0],
                                    .rstd = static_cast<float*>(out[1])});
  });
  // The sum of squares, none negative, takes C / 32 additions and a tree of 5;
  // its root halves that, and rstd is rounded.
  const double units = static_cast<double>(channels()) / 64 + 4;
  for (int64_t n = 0; n < rows(); ++n) {
    const double expected_rstd = Rstd(n);
    ASSERT_NEAR(rstd[n], expected_rstd, expected_rstd * units * kUnit);
    for (int64_t c = 0; c < channels(); ++c) {
      const int64_t i = n * channels() + c;
      const double expected = x_[i] * expected_rstd * Gain(c);
      ASSERT_NEAR(y[i], expected,
                  std::abs(expected) * (units + 3) * kUnit +
                      RoundingError(dtype(), expected));
    }
  }
}

TEST_P(RmsNormOracle, InputGradientEqualsDouble) {
  const GuardedBuffer residual = Random(x_.size());
  for (const bool with_residual : {false, true}) {
    GuardedBuffer dx = Empty(x_.size());
    if (with_residual) dx.CopyFrom(residual);  // in place
    RunEverywhere({&dx}, [&](const ExecContext& context, const auto& out) {
      return kernels::Run(
          context,
          RmsNormBackwardInputArgs{.shape = GetParam().shape,
                                   .offset = GetParam().offset,
                                   .dy = dy_.data(),
                                   .x = x_.data(),
                                   .gamma = gamma_.data(),
                                   .rstd = rstd_.floats(),
                                   .residual = with_residual ? out[0] : nullptr,
                                   .dx = out[0]});
    });
    for (int64_t n = 0; n < rows(); ++n) {
      const double rstd = Rstd(n);
      double mean = 0, size_of_terms = 0;
      for (int64_t c = 0; c < channels(); ++c) {
        const int64_t i = n * channels() + c;
        const double term =
            dy_[i] * Gain(c) * x_[i] * rstd / static_cast<double>(channels());
        mean += term;
        size_of_terms += std::abs(term);
      }
      for (int64_t c = 0; c < channels(); ++c) {
        const int64_t i = n * channels() + c;
        const double w = dy_[i] * Gain(c), xhat = x_[i] * rstd;
        double expected = rstd * (w - xhat * mean);
        if (with_residual) expected += residual[i];
        // The mean takes C / 32 additions, a tree of 5, 4 roundings of each
        // term (two of w, rstd's and xhat's) and its own; xhat and its product
        // with the mean 3 more; difference, product and stored rstd 3.
        const double units = static_cast<double>(channels()) / 32 + 16;
        ASSERT_NEAR(
            dx[i], expected,
            rstd * (std::abs(w) * 5 + std::abs(xhat) * size_of_terms * units) *
                    kUnit +
                RoundingError(DType::kFloat32, expected) +
                RoundingError(dtype(), expected));
      }
    }
  }
}

TEST_P(RmsNormOracle, ParameterGradientEqualsDouble) {
  for (const bool accumulate : {false, true}) {
    GuardedBuffer dgamma = Empty(channels());
    if (accumulate) dgamma.CopyFrom(gamma_);
    RunEverywhere({&dgamma}, [&](const ExecContext& context, const auto& out) {
      return kernels::Run(
          context, RmsNormBackwardParametersArgs{.shape = GetParam().shape,
                                                 .dy = dy_.data(),
                                                 .x = x_.data(),
                                                 .rstd = rstd_.floats(),
                                                 .dgamma = out[0],
                                                 .accumulate = accumulate});
    });
    for (int64_t c = 0; c < channels(); ++c) {
      double sum = accumulate ? gamma_[c] : 0;
      double size_of_terms = std::abs(sum);
      for (int64_t n = 0; n < rows(); ++n) {
        const int64_t i = n * channels() + c;
        const double term = dy_[i] * x_[i] * rstd_[n];
        sum += term;
        size_of_terms += std::abs(term);
      }
      // 32 roundings per tile, one per tile, and three of the terms.
      const double units = 36 + static_cast<double>(rows()) / 32;
      ASSERT_NEAR(dgamma[c], sum,
                  size_of_terms * units * kUnit + RoundingError(dtype(), sum));
    }
  }
}

// From PyTorch 2.13, in double: torch.nn.functional.rms_norm(x, (4,), gamma +
// offset, 1e-5) and its gradients.
TEST(RmsNorm, GivesPyTorchsValues) {
  const float x[] = {1, -2, 3, 0.5f, 0.01f, 0.02f, -0.03f, 0};
  const float gamma[] = {0.5f, -1, 2, 1.5f};
  const float dy[] = {1, 0.25f, -1, 2, 0.5f, -0.5f, 1, 3};
  const double y[2][8] = {{0.2649061, 1.0596244, 3.1788732, 0.397359149,
                           0.263523138, -1.05409255, -3.16227766, 0},
                          {0.794718299, 0, 4.76830979, 0.662265249, 0.790569415,
                           0, -4.74341649, 0}};
  const double dx[2][8] = {{0.395035046, -0.392710943, -0.669237558, 1.65450107,
                            30.561364, 61.1227279, 53.2536342, 237.170825},
                           {0.980616794, -0.371796991, -1.03174111, 2.74201024,
                            69.7238304, 60.3907192, 67.5278042, 395.284708}};
  const double dgamma[] = {0.793335338, -0.791952376, -3.17057543, 0.529812199};
  ThreadPool pool(1);
  const ExecContext context{&pool};
  const RmsNormShape shape = {2, 4};
  for (const int offset : {0, 1}) {
    const float shift = static_cast<float>(offset);
    float got_y[8], got_dx[8], got_dgamma[4], rstd[2];
    ASSERT_TRUE(kernels::Run(context, RmsNormForwardArgs{.shape = shape,
                                                         .epsilon = kEpsilon,
                                                         .offset = shift,
                                                         .x = x,
                                                         .gamma = gamma,
                                                         .y = got_y,
                                                         .rstd = rstd})
                    .ok());
    ASSERT_TRUE(kernels::Run(context, RmsNormBackwardInputArgs{.shape = shape,
                                                               .offset = shift,
                                                               .dy = dy,
                                                               .x = x,
                                                               .gamma = gamma,
                                                               .rstd = rstd,
                                                               .dx = got_dx})
                    .ok());
    ASSERT_TRUE(
        kernels::Run(context,
                     RmsNormBackwardParametersArgs{.shape = shape,
                                                   .dy = dy,
                                                   .x = x,
                                                   .rstd = rstd,
                                                   .dgamma = got_dgamma})
            .ok());
    // Ten roundings, and the constants' nine digits.
    for (int i = 0; i < 8; ++i) {
      EXPECT_NEAR(got_y[i], y[offset][i], 1e-6 * std::abs(y[offset][i]));
      EXPECT_NEAR(got_dx[i], dx[offset][i], 2e-6 * std::abs(dx[offset][i]));
    }
    for (int c = 0; c < 4; ++c) EXPECT_NEAR(got_dgamma[c], dgamma[c], 2e-6);
  }
}

TEST(RmsNorm, ShowsNumbersThatAreNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[] = {1, std::nanf(""), 2, 1, infinity, 2, 1, 1, 1};
  const float gamma[] = {1, 1, 1};
  float y[9], rstd[3];
  ThreadPool pool(1);
  ForEachTarget([&](const char*) {
    ASSERT_TRUE(
        kernels::Run(ExecContext{&pool}, RmsNormForwardArgs{.shape = {3, 3},
                                                            .epsilon = kEpsilon,
                                                            .x = x,
                                                            .gamma = gamma,
                                                            .y = y,
                                                            .rstd = rstd})
            .ok());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i]));
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(y[3], 0);
    EXPECT_NEAR(y[6], 1, 1e-5);
  });
}

TEST(RmsNorm, RefusesBadShapes) {
  ThreadPool pool(1);
  const ExecContext context{&pool};
  EXPECT_EQ(kernels::Run(context, RmsNormForwardArgs{.shape = {1, 0}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      kernels::Run(context, RmsNormBackwardInputArgs{.shape = {-1, 4}}).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      kernels::Run(context, RmsNormBackwardParametersArgs{.shape = {1, 0}})
          .code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor::kernels
