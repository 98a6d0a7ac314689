
#include "kernels/layer_norm/layer_norm.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr float kEpsilon = 1e-5f;

struct Moments {
  double mean, rstd;
};
Moments RowMoments(const std::vector<double>& x) {
  const double count = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (double v : x) mean += v / count;
  for (double v : x) variance += (v - mean) * (v - mean) / count;
  return {mean, 1 / std::sqrt(variance + kEpsilon)};
}

std::vector<double> Row(const GuardedBuffer& x, int64_t n, int64_t channels) {
  std::vector<double> row(channels);
  for (int64_t c = 0; c < channels; ++c) row[c] = x[n * channels + c];
  return row;
}

struct Case {
  int64_t rows, channels;
  DType dtype;
  double offset;  // of every x
  int64_t shift;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (DType dtype : kAllTypes) {
    for (int64_t channels : {1, 3, 16, 31, 32, 33, 64, 100, 768, 769}) {
      for (int64_t rows : {0, 1, 5, 100}) {
        cases.push_back({rows, channels, dtype, 0, (rows + channels) % 4});
      }
      // The mean a thousand times the deviation.
      cases.push_back({3, channels, dtype, 1000, 1});
    }
  }
  return cases;
}

// The tensors of a case and, after Run, the first target's outputs.
struct Norm {
  Norm(const Case& c, uint64_t seed)
      : of(c),
        shape{c.rows, c.channels, c.dtype},
        x(c.dtype, c.rows * c.channels, c.shift),
        dy(c.dtype, c.rows * c.channels, c.shift),
        residual(c.dtype, c.rows * c.channels, c.shift),
        gamma(c.dtype, c.channels, c.shift),
        beta(c.dtype, c.channels, c.shift) {
    std::mt19937_64 random(seed);
    x.FillNormal(random);
    for (int64_t i = 0; i < x.size(); ++i) x.Set(i, x[i] + c.offset);
    dy.FillNormal(random);
    residual.FillNormal(random);
    gamma.FillNormal(random);
    beta.FillNormal(random);
  }
  Case of;
  LayerNormShape shape;
  GuardedBuffer x, dy, residual, gamma, beta;
};

testing::Message Describe(const Case& c) {
  return testing::Message()
         << "[" << c.rows << ", " << c.channels << "] " << DTypeName(c.dtype)
         << " offset " << c.offset << " shift " << c.shift;
}

// Runs `body(context, first)` on every target and pool: `first` is true once.
template <class Body>
void Everywhere(const Body& body) {
  bool first = true;
  ForEachTarget([&](const char* target) {
    SCOPED_TRACE(target);
    ForEachPool([&](const ExecContext& context) {
      body(context, first);
      first = false;
    });
  });
}

TEST(LayerNormForward, EqualsDoubleOracle) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(Describe(c));
    Norm t(c, 1);
    GuardedBuffer y(c.dtype, t.x.size(), c.shift);
    GuardedBuffer mean(DType::kFloat32, c.rows), rstd(DType::kFloat32, c.rows);
    Everywhere([&](const ExecContext& context, bool first) {
      GuardedBuffer y2(c.dtype, t.x.size(), c.shift);
      GuardedBuffer mean2(DType::kFloat32, c.rows);
      GuardedBuffer rstd2(DType::kFloat32, c.rows);
      ASSERT_TRUE(
          kernels::Run(context, LayerNormForwardArgs{.shape = t.shape,
                                                     .epsilon = kEpsilon,
                                                     .x = t.x.data(),
                                                     .gamma = t.gamma.data(),
                                                     .beta = t.beta.data(),
                                                     .y = y2.data(),
                                                     .mean = mean2.floats(),
                                                     .rstd = rstd2.floats()})
              .ok());
      ASSERT_TRUE(y2.GuardsIntact() && mean2.GuardsIntact() &&
                  rstd2.GuardsIntact());
      if (first) {
        y.CopyFrom(y2);
        mean.CopyFrom(mean2);
        rstd.CopyFrom(rstd2);
      }
      ASSERT_TRUE(y2.SameBits(y) && mean2.SameBits(mean) &&
                  rstd2.SameBits(rstd));
    });
    for (int64_t n = 0; n < c.rows; ++n) {
      const std::vector<double> row = Row(t.x, n, c.channels);
      const Moments m = RowMoments(row);
      // C / 32 additions to a partial sum and a tree of 5, each term rounded
      // before: of x - mean for the mean, of its square for the variance, whose
      // root halves it. The stored mean rounds once more, and x - mean may lose
      // 2^-24 |mean|.
      const double sums = static_cast<double>(c.channels) / 32 + 8;
      const double mean_error = (std::abs(m.mean) + sums / m.rstd) * 0x1p-24;
      ASSERT_NEAR(mean[n], m.mean, mean_error);
      const double relative = (sums + 2 * std::abs(m.mean) * m.rstd) * 0x1p-24;
      ASSERT_NEAR(rstd[n], m.rstd, m.rstd * relative);
      for (int64_t i = 0; i < c.channels; ++i) {
        const double xhat = (row[i] - m.mean) * m.rstd;
        const double expected = xhat * t.gamma[i] + t.beta[i];
        // The stored mean's error shifts every xhat.
        const double tolerance =
            std::abs(t.gamma[i]) * (std::abs(xhat) * (relative + 4 * 0x1p-24) +
                                    mean_error * m.rstd) +
            RoundingError(c.dtype, expected);
        ASSERT_NEAR(y[n * c.channels + i], expected, tolerance);
      }
    }
  }
}

TEST(LayerNormForward, KeepsDigitsUnderALargeMean) {
  // x = 4096 + k / 1024: exact in fp32. The one-pass formula E x^2 - (E x)^2
  // would lose the variance, which is 14 orders below the mean's square.
  const int64_t channels = 768;
  std::vector<float> x(channels), gamma(channels, 1.0f), beta(channels, 0.0f);
  std::vector<double> row(channels);
  for (int64_t c = 0; c < channels; ++c) {
    x[c] = 4096.0f + static_cast<float>(c % 7) / 1024.0f;
    row[c] = x[c];
  }
  std::vector<float> y(channels);
  float mean, rstd;
  ThreadPool pool(1);
  ASSERT_TRUE(kernels::Run(ExecContext{&pool},
                           LayerNormForwardArgs{.shape = {1, channels},
                                                .epsilon = kEpsilon,
                                                .x = x.data(),
                                                .gamma = gamma.data(),
                                                .beta = beta.data(),
                                                .y = y.data(),
                                                .mean = &mean,
                                                .rstd = &rstd})
                  .ok());
  const Moments m = RowMoments(row);
  EXPECT_NEAR(rstd, m.rstd, m.rstd * 40 * 0x1p-24);
  EXPECT_NEAR(mean, m.mean, m.mean * 0x1p-24);
}

// dx of the definition, in double, from double moments.
std::vector<double> BackwardOracle(const std::vector<double>& x,
                                   const std::vector<double>& w) {
  const Moments m = RowMoments(x);
  const double count = static_cast<double>(x.size());
  double w_mean = 0, wx_mean = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    w_mean += w[i] / count;
    wx_mean += w[i] * (x[i] - m.mean) * m.rstd / count;
  }
  std::vector<double> dx(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double xhat = (x[i] - m.mean) * m.rstd;
    dx[i] = m.rstd * (w[i] - w_mean - xhat * wx_mean);
  }
  return dx;
}

TEST(LayerNormBackward, OracleIsTheDerivativeOfForward) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  std::vector<double> x(17), w(17);
  for (double& v : x) v = normal(random);
  for (double& v : w) v = normal(random);
  const auto loss = [&](const std::vector<double>& at) {
    const Moments m = RowMoments(at);
    double sum = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      sum += w[i] * (at[i] - m.mean) * m.rstd;
    }
    return sum;
  };
  const std::vector<double> dx = BackwardOracle(x, w);
  for (size_t i = 0; i < x.size(); ++i) {
    // h^2 and 1e-15 / h are both below 1e-8.
    const double h = 1e-5;
    std::vector<double> up = x, down = x;
    up[i] += h;
    down[i] -= h;
    EXPECT_NEAR(dx[i], (loss(up) - loss(down)) / (2 * h), 1e-8);
  }
}

// The stored moments, as forward would give them.
struct StoredMoments {
  explicit StoredMoments(const Norm& t) : mean(t.of.rows), rstd(t.of.rows) {
    for (int64_t n = 0; n < t.of.rows; ++n) {
      const Moments m = RowMoments(Row(t.x, n, t.of.channels));
      mean[n] = static_cast<float>(m.mean);
      rstd[n] = static_cast<float>(m.rstd);
    }
  }
  std::vector<float> mean, rstd;
};

TEST(LayerNormBackwardInput, EqualsDoubleOracle) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(Describe(c));
    Norm t(c, 3);
    const StoredMoments stored(t);
    for (bool with_residual : {false, true}) {
      GuardedBuffer dx(c.dtype, t.x.size(), c.shift);
      Everywhere([&](const ExecContext& context, bool first) {
        GuardedBuffer dx2(c.dtype, t.x.size(), c.shift);
        if (with_residual) dx2.CopyFrom(t.residual);  // in place
        ASSERT_TRUE(
            kernels::Run(context,
                         LayerNormBackwardInputArgs{
                             .shape = t.shape,
                             .dy = t.dy.data(),
                             .x = t.x.data(),
                             .gamma = t.gamma.data(),
                             .mean = stored.mean.data(),
                             .rstd = stored.rstd.data(),
                             .residual = with_residual ? dx2.data() : nullptr,
                             .dx = dx2.data()})
                .ok());
        ASSERT_TRUE(dx2.GuardsIntact());
        if (first) dx.CopyFrom(dx2);
        ASSERT_TRUE(dx2.SameBits(dx));
      });
      for (int64_t n = 0; n < c.rows; ++n) {
        const std::vector<double> row = Row(t.x, n, c.channels);
        std::vector<double> w = Row(t.dy, n, c.channels);
        double largest = 0;
        for (int64_t i = 0; i < c.channels; ++i) {
          w[i] *= t.gamma[i];
          largest = std::max(largest, std::abs(w[i]));
        }
        const Moments m = RowMoments(row);
        const std::vector<double> expected = BackwardOracle(row, w);
        double spread = 1;  // the largest |xhat|
        for (double v : row) {
          spread = std::max(spread, std::abs(v - m.mean) * m.rstd);
        }
        // Two means of C terms in 32 partial sums, each term with 4 roundings,
        // multiplied by xhat; xhat is off by the mean's and rstd's rounding.
        const double units = static_cast<double>(c.channels) / 32 + 5 + 8 +
                             2 * std::abs(m.mean) * m.rstd;
        for (int64_t i = 0; i < c.channels; ++i) {
          double value = expected[i];
          if (with_residual) value += t.residual[n * c.channels + i];
          const double tolerance =
              m.rstd * largest * spread * spread * units * 0x1p-24 +
              RoundingError(c.dtype, value);
          ASSERT_NEAR(dx[n * c.channels + i], value, tolerance);
        }
      }
    }
  }
}

// Where all of a row's elements are alike, xhat is 0 and dx = rstd (w -
// mean(w)), however large they are: also where a vector of this processor is
// longer than the row.
TEST(LayerNormBackwardInput, IsFiniteUnderAMeanNearTheLargestNumber) {
  for (int64_t channels : {1, 3, 8, 16, 33}) {
    SCOPED_TRACE(channels);
    const DType fp32 = DType::kFloat32;
    Norm t({1, channels, fp32, 0, 0}, 6);
    for (int64_t i = 0; i < channels; ++i) t.x.Set(i, 1e37f);
    const float mean = 1e37f;
    const float rstd = 1 / std::sqrt(kEpsilon);
    double w_mean = 0;
    for (int64_t i = 0; i < channels; ++i) {
      w_mean += static_cast<double>(t.dy[i]) * t.gamma[i] / channels;
    }
    Everywhere([&](const ExecContext& context, bool) {
      GuardedBuffer dx(fp32, channels);
      ASSERT_TRUE(
          kernels::Run(context,
                       LayerNormBackwardInputArgs{.shape = t.shape,
                                                  .dy = t.dy.data(),
                                                  .x = t.x.data(),
                                                  .gamma = t.gamma.data(),
                                                  .mean = &mean,
                                                  .rstd = &rstd,
                                                  .dx = dx.data()})
              .ok());
      for (int64_t i = 0; i < channels; ++i) {
        const double w = static_cast<double>(t.dy[i]) * t.gamma[i];
        // Each w and their mean are at most 100 here, and round some times.
        ASSERT_NEAR(dx[i], rstd * (w - w_mean), rstd * 100 * 8 * 0x1p-24);
      }
    });
  }
}

TEST(LayerNormBackwardParameters, EqualsDoubleOracle) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(Describe(c));
    Norm t(c, 4);
    const StoredMoments stored(t);
    for (bool accumulate : {false, true}) {
      GuardedBuffer dgamma(c.dtype, c.channels), dbeta(c.dtype, c.channels);
      Everywhere([&](const ExecContext& context, bool first) {
        GuardedBuffer dgamma2(c.dtype, c.channels, 1);
        GuardedBuffer dbeta2(c.dtype, c.channels, 2);
        if (accumulate) {
          dgamma2.CopyFrom(t.gamma);
          dbeta2.CopyFrom(t.beta);
        }
        ASSERT_TRUE(kernels::Run(context,
                                 LayerNormBackwardParametersArgs{
                                     .shape = t.shape,
                                     .dy = t.dy.data(),
                                     .x = t.x.data(),
                                     .mean = stored.mean.data(),
                                     .rstd = stored.rstd.data(),
                                     .dgamma = dgamma2.data(),
                                     .dbeta = dbeta2.data(),
                                     .accumulate = accumulate})
                        .ok());
        ASSERT_TRUE(dgamma2.GuardsIntact() && dbeta2.GuardsIntact());
        if (first) {
          dgamma.CopyFrom(dgamma2);
          dbeta.CopyFrom(dbeta2);
        }
        ASSERT_TRUE(dgamma2.SameBits(dgamma) && dbeta2.SameBits(dbeta));
      });
      for (int64_t i = 0; i < c.channels; ++i) {
        double g = accumulate ? t.gamma[i] : 0, b = accumulate ? t.beta[i] : 0;
        double g_size = std::abs(g), b_size = std::abs(b);
        for (int64_t n = 0; n < c.rows; ++n) {
          const double dy = t.dy[n * c.channels + i];
          const double xhat =
              (t.x[n * c.channels + i] - double{stored.mean[n]}) *
              stored.rstd[n];
          g += dy * xhat;
          b += dy;
          g_size += std::abs(dy * xhat);
          b_size += std::abs(dy);
        }
        // 32 roundings per tile, one per tile, and three of the terms.
        const double units = 36 + static_cast<double>(c.rows) / 32;
        ASSERT_NEAR(dgamma[i], g,
                    g_size * units * 0x1p-24 + RoundingError(c.dtype, g));
        ASSERT_NEAR(dbeta[i], b,
                    b_size * units * 0x1p-24 + RoundingError(c.dtype, b));
      }
    }
  }
}

TEST(LayerNormBackwardParameters, WritesOnlyWhatIsAskedFor) {
  const Case c{40, 70, DType::kFloat32, 0, 0};
  Norm t(c, 5);
  const StoredMoments stored(t);
  ThreadPool pool(2);
  const auto run = [&](void* dgamma, void* dbeta) {
    return kernels::Run(ExecContext{&pool}, LayerNormBackwardParametersArgs{
                                                .shape = t.shape,
                                                .dy = t.dy.data(),
                                                .x = t.x.data(),
                                                .mean = stored.mean.data(),
                                                .rstd = stored.rstd.data(),
                                                .dgamma = dgamma,
                                                .dbeta = dbeta});
  };
  GuardedBuffer both_g(c.dtype, 70), both_b(c.dtype, 70);
  GuardedBuffer only_g(c.dtype, 70), only_b(c.dtype, 70);
  ASSERT_TRUE(run(both_g.data(), both_b.data()).ok());
  ASSERT_TRUE(run(only_g.data(), nullptr).ok());
  ASSERT_TRUE(run(nullptr, only_b.data()).ok());
  EXPECT_TRUE(only_g.SameBits(both_g));
  EXPECT_TRUE(only_b.SameBits(both_b));
}

TEST(LayerNorm, RefusesBadShapes) {
  ThreadPool pool(1);
  EXPECT_EQ(
      kernels::Run(ExecContext{&pool},
                   LayerNormForwardArgs{.shape = {1, 0}, .epsilon = kEpsilon})
          .code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kernels::Run(ExecContext{&pool},
                         LayerNormBackwardInputArgs{.shape = {-1, 4}})
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor::kernels
