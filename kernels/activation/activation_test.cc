#include "kernels/activation/activation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/run_everywhere.h"

namespace castor::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnit = 0x1p-24;
// Where a factor leaves fp32's normal numbers, digits are lost, and clamped
// derivatives end.
constexpr double kLeast = 1e-34;

// A function and its derivative in double, and by how much fp32 may miss them.
struct Oracle {
  double value, slope;
  double value_error, slope_error;
};

// x s and its derivative, s = 1 / (1 + e^a), of which a is off by
// `exponent_units`: that is a relative error of (1 - s) times as much of s.
// Exp's own error is 1 unit in the last place (2 units of roundoff); sum,
// quotient and product round once each.
Oracle OfSigmoid(double x, double a, double minus_da, double exponent_units) {
  const double s = 1 / (1 + std::exp(a)), rest = 1 / (1 + std::exp(-a));
  const double units = exponent_units * std::abs(a) * rest + 8;
  Oracle of;
  of.value = x * s;
  of.slope = s + x * s * rest * minus_da;
  of.value_error = std::abs(of.value) * units * kUnit + kLeast;
  // Both terms carry the error of s, and the second that of 1 - s.
  of.slope_error =
      s * (1 + std::abs(x * minus_da) * rest) * 2 * units * kUnit + kLeast;
  return of;
}

Oracle OracleOf(Activation kind, double x) {
  switch (kind) {
    case Activation::kRelu:
      return {std::max(x, 0.0), x > 0 ? 1.0 : 0.0, 0, 0};
    case Activation::kSilu:
      // a = -x is exact.
      return OfSigmoid(x, -x, 1, 0);
    case Activation::kGeluTanh: {
      // Three operations and the constants' rounding.
      const double c = std::sqrt(8 / M_PI);
      return OfSigmoid(x, -c * (x + 0.044715 * x * x * x),
                       c * (1 + 3 * 0.044715 * x * x), 4);
    }
    case Activation::kTanh: {
      // Highway's Tanh is off by 4 units in the last place at most.
      const double sech = 1 / std::cosh(x);
      return {std::tanh(x), sech * sech,
              std::abs(std::tanh(x)) * 10 * kUnit + kLeast,
              sech * sech * 12 * kUnit + kLeast};
    }
    case Activation::kGelu:
      break;
  }
  const double t = std::min(std::abs(x), 40.0);  // erfc is 0 there
  const double tail = std::erfc(t / std::sqrt(2)) / 2;
  const double phi = x < 0 ? tail : 1 - tail;
  const double density = std::exp(-t * t / 2) / std::sqrt(2 * M_PI);
  // The square's rounding, twice; the polynomial's 10 units and Exp's 2.
  const double units = t * t + 16;
  Oracle of;
  of.value = x * phi;
  of.slope = phi + (x < 0 ? -t : t) * density;
  of.value_error = std::abs(x) * (tail * units + 2 * phi) * kUnit + kLeast;
  of.slope_error =
      (tail * units + 2 * phi + t * density * units) * kUnit + kLeast;
  return of;
}

std::string NameOf(Activation kind) {
  switch (kind) {
    case Activation::kRelu:
      return "Relu";
    case Activation::kGelu:
      return "Gelu";
    case Activation::kGeluTanh:
      return "GeluTanh";
    case Activation::kSilu:
      return "Silu";
    case Activation::kTanh:
      return "Tanh";
  }
  return "";
}

struct Operands {
  // x has the range in which functions have a shape, their tails, and numbers
  // beyond them; minus infinity is not among them, and would be in fp16.
  Operands(DType type, int64_t elements, std::mt19937_64& random)
      : dtype(type),
        size(elements),
        x(type, elements, elements % 3),
        up(type, elements, elements % 2),
        dy(type, elements, elements % 4) {
    x.FillNormal(random, 2.5);
    up.FillNormal(random);
    dy.FillNormal(random);
    const double odd[] = {0.0,   -0.0,   5.0,   -5.0,  -9.0,
                          -12.0, -14.25, 40.0,  -40.0, 1e20,
                          -1e20, 3e38,   -3e38, 1e-40, kInfinity};
    for (int64_t i = 0; i < 15 && 2 * i + 1 < size; ++i) {
      x.Set(2 * i + 1, dtype == DType::kFloat16
                           ? std::max(odd[i], -kLargestFloat16)
                           : odd[i]);
    }
  }
  const void* up_if(bool gated) const { return gated ? up.data() : nullptr; }
  DType dtype;
  int64_t size;
  GuardedBuffer x, up, dy;
};

// A result in `dtype`; `error` is the most that fp32 may be off.
void ExpectClose(DType dtype, double got, double expected, double error,
                 double x) {
  const double largest =
      dtype == DType::kFloat16
          ? kLargestFloat16
          : static_cast<double>(std::numeric_limits<float>::max());
  if (std::abs(expected) > largest) {
    ASSERT_EQ(got, expected > 0 ? kInfinity : -kInfinity) << "x " << x;
    return;
  }
  double rounding = RoundingError(DType::kFloat32, expected);
  if (dtype != DType::kFloat32) rounding += RoundingError(dtype, expected);
  // bf16's least numbers are 9.2e-41 apart.
  ASSERT_NEAR(got, expected, error + rounding + 1e-40)
      << DTypeName(dtype) << " x " << x;
}

class ActivationOracle : public testing::TestWithParam<Activation> {
 protected:
  void CheckForward(const Operands& in, bool gated) {
    GuardedBuffer y(in.dtype, in.size, in.size % 5);
    RunOnEveryPool({&y}, [&](const ExecContext& context, const auto& out) {
      return kernels::Run(context, ActivationForwardArgs{.kind = GetParam(),
                                                         .dtype = in.dtype,
                                                         .size = in.size,
                                                         .x = in.x.data(),
                                                         .up = in.up_if(gated),
                                                         .y = out[0]});
    });
    for (int64_t i = 0; i < in.size; ++i) {
      const Oracle of = OracleOf(GetParam(), in.x[i]);
      const double factor = gated ? in.up[i] : 1;
      ExpectClose(in.dtype, y[i], of.value * factor,
                  of.value_error * std::abs(factor), in.x[i]);
    }
  }

  void CheckBackward(const Operands& in, bool gated) {
    GuardedBuffer dx(in.dtype, in.size, in.size % 5);
    GuardedBuffer dup(in.dtype, in.size, in.size % 2);
    RunOnEveryPool(
        {&dx, &dup}, [&](const ExecContext& context, const auto& out) {
          return kernels::Run(
              context, ActivationBackwardArgs{.kind = GetParam(),
                                              .dtype = in.dtype,
                                              .size = in.size,
                                              .x = in.x.data(),
                                              .up = in.up_if(gated),
                                              .dy = in.dy.data(),
                                              .dx = out[0],
                                              .dup = gated ? out[1] : nullptr});
        });
    for (int64_t i = 0; i < in.size; ++i) {
      const double factor = in.dy[i] * (gated ? in.up[i] : 1);
      // Beyond 87 the derivative is 0 or 1 to within 1e-35.
      const Oracle of = OracleOf(GetParam(), std::clamp(in.x[i], -87.0, 87.0));
      ExpectClose(
          in.dtype, dx[i], factor * of.slope,
          std::abs(factor) * (of.slope_error + 2 * kUnit * std::abs(of.slope)),
          in.x[i]);
      if (!gated) continue;
      const Oracle gate = OracleOf(GetParam(), in.x[i]);
      ExpectClose(in.dtype, dup[i], in.dy[i] * gate.value,
                  std::abs(in.dy[i]) * gate.value_error, in.x[i]);
    }
  }

  std::mt19937_64 random_{1};
};

INSTANTIATE_TEST_SUITE_P(Kinds, ActivationOracle,
                         testing::ValuesIn(kAllActivations),
                         [](const testing::TestParamInfo<Activation>& info) {
                           return NameOf(info.param);
                         });

// Highway's exponential function has other bits on other instruction sets.
TEST_P(ActivationOracle, EqualsDouble) {
  for (DType dtype : kAllTypes) {
    for (int64_t size : {0, 1, 7, 8, 15, 16, 17, 33, 65, 1000, 70003}) {
      const Operands in(dtype, size, random_);
      ForEachTarget([&](const char* target) {
        SCOPED_TRACE(target);
        for (const bool gated : {false, true}) {
          CheckForward(in, gated);
          CheckBackward(in, gated);
        }
      });
    }
  }
}

TEST_P(ActivationOracle, OutputsMayTakeInputsPlaces) {
  constexpr int64_t kSize = 133;
  for (DType dtype : kAllTypes) {
    const Operands in(dtype, kSize, random_);
    ThreadPool pool(2);
    const ExecContext context{&pool};
    const auto copy = [&](const GuardedBuffer& from) {
      GuardedBuffer to(dtype, kSize);
      to.CopyFrom(from);
      return to;
    };
    GuardedBuffer y(dtype, kSize), in_place = copy(in.up);
    ActivationForwardArgs forward = {.kind = GetParam(),
                                     .dtype = dtype,
                                     .size = kSize,
                                     .x = in.x.data(),
                                     .up = in.up.data(),
                                     .y = y.data()};
    ASSERT_TRUE(kernels::Run(context, forward).ok());
    forward.up = forward.y = in_place.data();
    ASSERT_TRUE(kernels::Run(context, forward).ok());
    EXPECT_TRUE(in_place.SameBits(y));

    GuardedBuffer dx(dtype, kSize), dup(dtype, kSize), plain(dtype, kSize);
    GuardedBuffer up2 = copy(in.up), dy2 = copy(in.dy), dy3 = copy(in.dy);
    ActivationBackwardArgs backward = {.kind = GetParam(),
                                       .dtype = dtype,
                                       .size = kSize,
                                       .x = in.x.data(),
                                       .up = in.up.data(),
                                       .dy = in.dy.data(),
                                       .dx = dx.data(),
                                       .dup = dup.data()};
    ASSERT_TRUE(kernels::Run(context, backward).ok());
    backward.dy = backward.dx = dy2.data();
    backward.up = backward.dup = up2.data();
    ASSERT_TRUE(kernels::Run(context, backward).ok());
    EXPECT_TRUE(dy2.SameBits(dx) && up2.SameBits(dup));
    backward = {.kind = GetParam(),
                .dtype = dtype,
                .size = kSize,
                .x = in.x.data(),
                .dy = in.dy.data(),
                .dx = plain.data()};
    ASSERT_TRUE(kernels::Run(context, backward).ok());
    backward.dy = backward.dx = dy3.data();
    ASSERT_TRUE(kernels::Run(context, backward).ok());
    EXPECT_TRUE(dy3.SameBits(plain));
  }
}

TEST_P(ActivationOracle, IsItsOwnDerivative) {
  // Central differences with h = 1e-5: h^2 / 6 |act'''| and roundoff 1e-16 / h
  // are both below 1e-9. ReLU has no derivative at 0.
  for (double x = -6 + 0.03125; x <= 6; x += 0.0625) {
    const double h = 1e-5;
    const double up = OracleOf(GetParam(), x + h).value;
    const double down = OracleOf(GetParam(), x - h).value;
    EXPECT_NEAR(OracleOf(GetParam(), x).slope, (up - down) / (2 * h), 1e-9);
  }
}

TEST_P(ActivationOracle, KeepsNans) {
  ThreadPool pool(1);
  const float x[] = {1, std::nanf(""), 2};
  const float ones[] = {1, 1, 1};
  float y[3], dx[3];
  ForEachTarget([&](const char*) {
    ASSERT_TRUE(kernels::Run(ExecContext{&pool},
                             ActivationForwardArgs{
                                 .kind = GetParam(), .size = 3, .x = x, .y = y})
                    .ok());
    ASSERT_TRUE(
        kernels::Run(
            ExecContext{&pool},
            ActivationBackwardArgs{
                .kind = GetParam(), .size = 3, .x = x, .dy = ones, .dx = dx})
            .ok());
    EXPECT_TRUE(std::isnan(y[1]) && std::isnan(dx[1]));
    EXPECT_TRUE(std::isfinite(y[0]) && std::isfinite(dx[0]));
    EXPECT_TRUE(std::isfinite(y[2]) && std::isfinite(dx[2]));
  });
}

// From PyTorch 2.13, in double: torch.nn.functional's relu, gelu,
// gelu(approximate="tanh") and silu, and their gradients.
TEST(Activation, GivesPyTorchsValues) {
  constexpr int kSize = 8;
  const float x[kSize] = {-5, -2, -0.75f, -0.125f, 0, 0.25f, 1, 3.5f};
  const double expected[4][2][kSize] = {
      {{0, 0, 0, 0, 0, 0.25, 1, 3.5}, {0, 0, 0, 0, 0, 1, 1, 1}},
      {{-1.43325786e-06, -0.0455002639, -0.169970514, -0.0562827219, 0,
        0.149676581, 0.841344746, 3.4991858},
       {-7.146946e-06, -0.0852318011, 0.000774278261, 0.400782064, 0.5,
        0.695373355, 1.08331547, 1.00282176}},
      {{-2.2917962e-07, -0.0454023059, -0.170039445, -0.0562828014, 0,
        0.149675351, 0.841191991, 3.4993838},
       {-1.54636199e-06, -0.0860992566, 0.00106174386, 0.400784594, 0.5,
        0.695354095, 1.08296408, 1.00242264}},
      {{-0.0334642546, -0.238405844, -0.240615976, -0.0585988283, 0,
        0.140544125, 0.731058579, 3.39740719},
       {-0.0265474324, -0.0907842488, 0.157400056, 0.43766238, 0.5, 0.623710022,
        0.927670512, 1.07027335}}};
  ThreadPool pool(1);
  const float ones[kSize] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int k = 0; k < 4; ++k) {
    float y[kSize], dx[kSize];
    const Activation kind = kAllActivations[k];
    ASSERT_TRUE(kernels::Run(ExecContext{&pool},
                             ActivationForwardArgs{
                                 .kind = kind, .size = kSize, .x = x, .y = y})
                    .ok());
    ASSERT_TRUE(
        kernels::Run(
            ExecContext{&pool},
            ActivationBackwardArgs{
                .kind = kind, .size = kSize, .x = x, .dy = ones, .dx = dx})
            .ok());
    for (int i = 0; i < kSize; ++i) {
      // The constants have nine digits; the exponents at -5, of up to 17, are
      // off by 4 roundings.
      EXPECT_NEAR(y[i], expected[k][0][i], 6e-6 * std::abs(expected[k][0][i]))
          << NameOf(kind) << " " << x[i];
      EXPECT_NEAR(dx[i], expected[k][1][i],
                  6e-6 * (0.01 + std::abs(expected[k][1][i])))
          << NameOf(kind) << " " << x[i];
    }
  }
}

TEST(Activation, RefusesASizeBelowZeroAndOneSideOfAGate) {
  ThreadPool pool(1);
  const ExecContext context{&pool};
  float x[1] = {0};
  EXPECT_EQ(kernels::Run(context, ActivationForwardArgs{.size = -1}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kernels::Run(context, ActivationBackwardArgs{.size = -1}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kernels::Run(context, ActivationBackwardArgs{.up = x}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kernels::Run(context, ActivationBackwardArgs{.dup = x}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor::kernels
