
#include "kernels/head_loss/head_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {
namespace {

using Doubles = std::vector<double>;

// The formulas of the header, in double.
struct Oracle {
  // `bias` has no elements where there is none.
  Oracle(const HeadLossShape& s, const Doubles& x, const Doubles& w,
         const std::vector<int32_t>& targets, const Doubles& bias = {})
      : logits(s.rows * s.vocabulary), lse(s.rows) {
    for (int64_t n = 0; n < s.rows; ++n) {
      double sum = 0;
      for (int64_t v = 0; v < s.vocabulary; ++v) {
        double logit = bias.empty() ? 0 : bias[v];
        double magnitude = std::abs(logit);
        for (int64_t c = 0; c < s.channels; ++c) {
          const double term = x[n * s.channels + c] * w[v * s.channels + c];
          logit += term;
          magnitude += std::abs(term);
        }
        largest = std::max(largest, magnitude);
        logits[n * s.vocabulary + v] = logit;
        sum += std::exp(logit);
      }
      lse[n] = std::log(sum);
      if (targets[n] == -100) continue;
      loss += lse[n] - logits[n * s.vocabulary + targets[n]];
      ++count;
    }
  }

  Doubles logits, lse;
  double loss = 0;
  int64_t count = 0;   // rows that take part
  double largest = 0;  // sum of magnitudes of a logit
};

struct Trial {
  Trial(const HeadLossShape& s, int64_t shift = 0, bool with_bias = false)
      : shape(s),
        has_bias(with_bias),
        x(s.dtype, s.rows * s.channels, shift),
        w(s.dtype, s.vocabulary * s.channels, shift),
        dx(s.dtype, s.rows * s.channels, shift),
        dw(s.dtype, s.vocabulary * s.channels, shift),
        bias(s.dtype, s.vocabulary, shift),
        db(s.dtype, s.vocabulary, shift),
        lse(DType::kFloat32, s.rows, shift),
        loss(DType::kFloat32, 1, shift),
        targets(s.rows) {
    std::mt19937_64 random(3);
    x.FillNormal(random);
    w.FillNormal(random, 0.3);
    bias.FillNormal(random);
    for (int64_t n = 0; n < s.rows; ++n) {
      const bool ignored = n % 7 == 3;
      targets[n] = ignored
                       ? -100
                       : static_cast<int32_t>(
                             random() % static_cast<uint64_t>(s.vocabulary));
    }
    // The ends of the vocabulary.
    targets[0] = static_cast<int32_t>(s.vocabulary - 1);
    if (s.rows > 1) targets[1] = 0;
  }

  absl::Status Forward(int threads) {
    ThreadPool pool(threads);
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        HeadLossForwardArgs{.shape = shape}.CpuWorkspaceBytes());
    HeadLossForwardArgs args;
    args.shape = shape;
    args.x = x.data();
    args.w = w.data();
    if (has_bias) args.bias = bias.data();
    args.targets = targets.data();
    args.loss = loss.floats();
    args.lse = lse.floats();
    args.correct = &correct;
    args.workspace = workspace.data();
    const absl::Status status = kernels::Run(ExecContext{&pool}, args);
    EXPECT_TRUE(workspace.GuardsIntact() && loss.GuardsIntact() &&
                lse.GuardsIntact());
    return status;
  }

  absl::Status Backward(int threads, float loss_grad = 1,
                        bool accumulate = false, bool in_place = false,
                        bool want_dx = true, bool want_dw = true) {
    ThreadPool pool(threads);
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        HeadLossBackwardArgs{.shape = shape}.CpuWorkspaceBytes());
    HeadLossBackwardArgs args;
    args.shape = shape;
    args.x = x.data();
    args.w = w.data();
    if (has_bias) args.bias = bias.data();
    if (has_bias && want_dw) args.db = in_place ? bias.data() : db.data();
    args.accumulate_db = accumulate && has_bias;
    args.targets = targets.data();
    args.lse = lse.floats();
    args.loss_grad = loss_grad;
    args.dx = want_dx ? dx.data() : nullptr;
    args.dw = !want_dw ? nullptr : in_place ? w.data() : dw.data();
    args.accumulate_dw = accumulate;
    args.workspace = workspace.data();
    const absl::Status status = kernels::Run(ExecContext{&pool}, args);
    EXPECT_TRUE(workspace.GuardsIntact() && dx.GuardsIntact() &&
                dw.GuardsIntact() && w.GuardsIntact() && db.GuardsIntact() &&
                bias.GuardsIntact());
    return status;
  }

  // No elements: there is none.
  Doubles bias_values() const { return has_bias ? bias.Values() : Doubles(); }

  HeadLossShape shape;
  bool has_bias;
  GuardedBuffer x, w, dx, dw, bias, db, lse, loss;
  int32_t correct = -1;
  std::vector<int32_t> targets;
};

TEST(HeadLossOracle, GradientFormulaAgreesWithFiniteDifferences) {
  const HeadLossShape shape{5, 3, 7};
  Trial trial(shape);
  const Doubles x = trial.x.Values(), w = trial.w.Values();
  const Oracle oracle(shape, x, w, trial.targets);
  for (int64_t n = 0; n < 5; ++n) {
    for (int64_t c = 0; c < 3; ++c) {
      constexpr double kStep = 1e-4;
      Doubles up = x, down = x;
      up[n * 3 + c] += kStep;
      down[n * 3 + c] -= kStep;
      double gradient = 0;
      for (int64_t v = 0; v < 7 && trial.targets[n] != -100; ++v) {
        const double p = std::exp(oracle.logits[n * 7 + v] - oracle.lse[n]);
        gradient += (p - (trial.targets[n] == v)) * w[v * 3 + c];
      }
      EXPECT_NEAR((Oracle(shape, up, w, trial.targets).loss -
                   Oracle(shape, down, w, trial.targets).loss) /
                      (2 * kStep),
                  gradient, 1e-7);
    }
  }
}

// The exact results of a trial, and how far rounding may take it from them.
// With u = 2^-24 and L the largest sum of magnitudes of a logit (Higham, (3.5),
// to first order):
//   a logit            (C + 3) u L =: e
//   lse                e + (V's block of 384 + 30) u + 2 u |lse| =: l
//   loss               rows (e + l) + 2 u |loss|
//   gradient of logit  g p (e + l + 30 u), or of the target g (e + l + 30 u),
//                      and one rounding to the type
//   dx                 sum over v of that times |w|, and (V + 2) u sum |g w|
//   dw                 sum over n of that times |x|, and (N + 2) u sum |g x|
//   db                 as dw with x = 1
// then one rounding to the type. No bound depends on the order of a sum.
struct Bounded {
  Bounded(const Trial& trial, double loss_grad,
          const Doubles* dw_before = nullptr,
          const Doubles* db_before = nullptr)
      : shape(trial.shape),
        x(trial.x.Values()),
        w(trial.w.Values()),
        oracle(shape, x, w, trial.targets, trial.bias_values()),
        lse_bound(shape.rows),
        dx(x.size()),
        dx_bound(x.size()),
        dw(w.size()),
        dw_bound(w.size()),
        db(shape.vocabulary),
        db_bound(shape.vocabulary) {
    const double e =
        (static_cast<double>(shape.channels) + 3) * kU * oracle.largest;
    double l = 0;
    for (int64_t n = 0; n < shape.rows; ++n) {
      lse_bound[n] = e + 414 * kU + 2 * kU * std::abs(oracle.lse[n]);
      l = std::max(l, lse_bound[n]);
    }
    loss_bound = static_cast<double>(oracle.count) * (e + l) +
                 2 * kU * std::abs(oracle.loss);
    if (dw_before != nullptr) dw = *dw_before;
    if (db_before != nullptr) db = *db_before;
    for (size_t i = 0; i < db.size(); ++i) {
      db_bound[i] = static_cast<double>(shape.rows + 3) * kU * std::abs(db[i]);
    }
    for (size_t i = 0; i < dw.size(); ++i) {
      dw_bound[i] = static_cast<double>(shape.rows + 3) * kU * std::abs(dw[i]);
    }
    for (int64_t n = 0; n < shape.rows; ++n) {
      if (trial.targets[n] == -100) continue;
      for (int64_t v = 0; v < shape.vocabulary; ++v) {
        const double p =
            std::exp(oracle.logits[n * shape.vocabulary + v] - oracle.lse[n]);
        const double hit = trial.targets[n] == v ? 1 : 0;
        const double g = (p - hit) * loss_grad;
        Add(n, v, g,
            std::max(p, hit) * loss_grad * (e + l + 30 * kU) + Rounding(g));
      }
    }
    for (size_t i = 0; i < dx.size(); ++i) dx_bound[i] += Rounding(dx[i]);
    for (size_t i = 0; i < dw.size(); ++i) dw_bound[i] += Rounding(dw[i]);
    for (size_t i = 0; i < db.size(); ++i) db_bound[i] += Rounding(db[i]);
  }

  static constexpr double kU = 0x1p-24;
  const HeadLossShape shape;
  const Doubles x, w;
  const Oracle oracle;
  double loss_bound = 0;
  Doubles lse_bound, dx, dx_bound, dw, dw_bound, db, db_bound;

 private:
  double Rounding(double value) const {
    return shape.dtype == DType::kFloat32 ? 0
                                          : RoundingError(shape.dtype, value);
  }

  // The part of one logit, whose gradient g is off by at most g_bound.
  void Add(int64_t n, int64_t v, double g, double g_bound) {
    const int64_t channels = shape.channels;
    db[v] += g;
    db_bound[v] +=
        g_bound + static_cast<double>(shape.rows + 3) * kU * std::abs(g);
    for (int64_t c = 0; c < channels; ++c) {
      const double wvc = w[v * channels + c], xnc = x[n * channels + c];
      dx[n * channels + c] += g * wvc;
      dx_bound[n * channels + c] +=
          (g_bound +
           static_cast<double>(shape.vocabulary + 2) * kU * std::abs(g)) *
          std::abs(wvc);
      dw[v * channels + c] += g * xnc;
      dw_bound[v * channels + c] +=
          (g_bound + static_cast<double>(shape.rows + 3) * kU * std::abs(g)) *
          std::abs(xnc);
    }
  }
};

void ExpectOracle(HeadLossShape shape, int64_t shift = 0,
                  bool accumulate = false, bool with_bias = false) {
  SCOPED_TRACE(testing::Message()
               << shape.rows << " rows, " << shape.channels << " channels, "
               << shape.vocabulary << " tokens, "
               << static_cast<int>(shape.dtype) << " shift " << shift
               << " bias " << with_bias);
  constexpr float kLossGrad = 3.5f;
  Trial trial(shape, shift, with_bias);
  std::mt19937_64 random(9);
  if (accumulate) trial.dw.FillNormal(random);
  if (accumulate) trial.db.FillNormal(random);
  const Doubles before = trial.dw.Values(), db_before = trial.db.Values();
  const Bounded expected(trial, kLossGrad, accumulate ? &before : nullptr,
                         accumulate ? &db_before : nullptr);
  ASSERT_TRUE(trial.Forward(2).ok());
  ASSERT_TRUE(trial.Backward(2, kLossGrad, accumulate).ok());

  for (int64_t n = 0; n < shape.rows; ++n) {
    ASSERT_NEAR(trial.lse[n], expected.oracle.lse[n], expected.lse_bound[n]);
  }
  ASSERT_NEAR(trial.loss[0], expected.oracle.loss, expected.loss_bound);
  for (int64_t i = 0; i < trial.dx.size(); ++i) {
    ASSERT_NEAR(trial.dx[i], expected.dx[i], expected.dx_bound[i])
        << "dx " << i;
  }
  for (int64_t i = 0; i < trial.dw.size(); ++i) {
    ASSERT_NEAR(trial.dw[i], expected.dw[i], expected.dw_bound[i])
        << "dw " << i;
  }
  for (int64_t i = 0; with_bias && i < trial.db.size(); ++i) {
    ASSERT_NEAR(trial.db[i], expected.db[i], expected.db_bound[i])
        << "db " << i;
  }
}

TEST(HeadLoss, AgreesWithDoubleAtSmallAndOddSizes) {
  for (DType dtype : kAllTypes) {
    for (int64_t rows : {1, 2, 5, 33}) {
      for (int64_t channels : {1, 7, 64}) {
        for (int64_t vocabulary : {1, 2, 50, 385}) {
          ExpectOracle({rows, channels, vocabulary, dtype}, rows % 3,
                       channels == 7, rows != 5);
        }
      }
    }
  }
}

// Blocks are 256 rows x 384 tokens, tiles of the vocabulary up to 3072, panels
// of 16-bit types 256 channels.
TEST(HeadLoss, AgreesWithDoubleAcrossBlocksTilesAndPanels) {
  for (DType dtype : kAllTypes) {
    ExpectOracle({257, 20, 1000, dtype});
    ExpectOracle({10, 40, 3500, dtype}, 1, true);
    ExpectOracle({12, 300, 400, dtype});
    ExpectOracle({270, 20, 3500, dtype}, 0, false, /*with_bias=*/true);
  }
}

TEST(HeadLoss, BitsDependNeitherOnThreadsNorOnAlignment) {
  for (DType dtype : kAllTypes) {
    const HeadLossShape shape{270, 40, 3500, dtype};
    Trial reference(shape);
    ASSERT_TRUE(reference.Forward(1).ok());
    ASSERT_TRUE(reference.Backward(1).ok());
    for (int threads : {2, 3}) {
      Trial other(shape, threads);
      ASSERT_TRUE(other.Forward(threads).ok());
      ASSERT_TRUE(other.Backward(threads).ok());
      EXPECT_TRUE(other.loss.SameBits(reference.loss));
      EXPECT_TRUE(other.lse.SameBits(reference.lse));
      EXPECT_TRUE(other.dx.SameBits(reference.dx));
      EXPECT_TRUE(other.dw.SameBits(reference.dw));
    }
  }
}

TEST(HeadLoss, GradientMayTakeThePlaceOfTheWeight) {
  for (DType dtype : kAllTypes) {
    for (int64_t vocabulary : {7, 3500}) {
      const HeadLossShape shape{40, 33, vocabulary, dtype};
      Trial apart(shape, 0, /*with_bias=*/true);
      ASSERT_TRUE(apart.Forward(2).ok());
      ASSERT_TRUE(apart.Backward(2).ok());
      Trial in_place(shape, 0, /*with_bias=*/true);
      ASSERT_TRUE(in_place.Forward(2).ok());
      ASSERT_TRUE(in_place.Backward(2, 1, false, true).ok());
      EXPECT_TRUE(in_place.w.SameBits(apart.dw));
      EXPECT_TRUE(in_place.bias.SameBits(apart.db));
      EXPECT_TRUE(in_place.dx.SameBits(apart.dx));
    }
  }
}

TEST(HeadLoss, LeavesOutGradientsThatAreNotWanted) {
  for (DType dtype : kAllTypes) {
    const HeadLossShape shape{20, 10, 3500, dtype};
    Trial both(shape), only_dx(shape), only_dw(shape);
    ASSERT_TRUE(both.Forward(1).ok() && both.Backward(1).ok());
    ASSERT_TRUE(only_dx.Forward(1).ok());
    ASSERT_TRUE(only_dx.Backward(1, 1, false, false, true, false).ok());
    EXPECT_TRUE(only_dx.dx.SameBits(both.dx));
    ASSERT_TRUE(only_dw.Forward(1).ok());
    ASSERT_TRUE(only_dw.Backward(1, 1, false, false, false, true).ok());
    EXPECT_TRUE(only_dw.dw.SameBits(both.dw));
  }
}

TEST(HeadLoss, OfIgnoredRowsAloneIsZeroWithZeroGradients) {
  Trial trial({5, 4, 9});
  std::fill(trial.targets.begin(), trial.targets.end(), -100);
  ASSERT_TRUE(trial.Forward(1).ok());
  ASSERT_TRUE(trial.Backward(1).ok());
  EXPECT_EQ(trial.loss[0], 0);
  for (int64_t i = 0; i < trial.dx.size(); ++i) EXPECT_EQ(trial.dx[i], 0);
  for (int64_t i = 0; i < trial.dw.size(); ++i) EXPECT_EQ(trial.dw[i], 0);
}

// Two trials of one shape sum in the same order, so the result has the same
// bits whatever stands in rows that take no part.
TEST(HeadLoss, BitsDoNotDependOnRowsThatTakeNoPart) {
  for (DType dtype : kAllTypes) {
    const HeadLossShape shape{40, 20, 400, dtype};
    Trial trial(shape), other(shape);
    for (int64_t n = 0; n < shape.rows; ++n) {
      if (trial.targets[n] != -100) continue;
      for (int64_t c = 0; c < shape.channels; ++c) {
        const int64_t i = n * shape.channels + c;
        other.x.Set(i, 3 - 2 * trial.x[i]);
      }
    }
    ASSERT_TRUE(trial.Forward(2).ok() && trial.Backward(2).ok());
    ASSERT_TRUE(other.Forward(2).ok() && other.Backward(2).ok());
    EXPECT_EQ(trial.loss[0], other.loss[0]);
    for (int64_t i = 0; i < trial.dx.size(); ++i) {
      EXPECT_EQ(trial.dx[i], other.dx[i]) << i;
    }
    for (int64_t i = 0; i < trial.dw.size(); ++i) {
      EXPECT_EQ(trial.dw[i], other.dw[i]) << i;
    }
  }
}

// They differ only in the number that a caller counts and divides by, and in
// rounding: a product's order of sums is fixed by its shape, which is another
// one (of 9 and of 5 terms, where oneDNN's AVX2 adds up in another order), so
// each result may be off by its bound.
TEST(HeadLoss, OfSomeRowsIsThatOfTheseRowsAlone) {
  for (DType dtype : kAllTypes) {
    const HeadLossShape shape{9, 4, 50, dtype};
    Trial some(shape);
    std::fill(some.targets.begin() + 5, some.targets.end(), -100);
    ASSERT_TRUE(some.Forward(1).ok() && some.Backward(1).ok());
    Trial first({5, 4, 50, dtype});
    for (int64_t i = 0; i < first.x.size(); ++i) first.x.Set(i, some.x[i]);
    for (int64_t i = 0; i < first.w.size(); ++i) first.w.Set(i, some.w[i]);
    std::copy_n(some.targets.begin(), 5, first.targets.begin());
    ASSERT_TRUE(first.Forward(1).ok() && first.Backward(1).ok());
    const Bounded of_some(some, 1), of_first(first, 1);
    EXPECT_NEAR(some.loss[0], first.loss[0],
                of_some.loss_bound + of_first.loss_bound);
    for (int64_t i = 0; i < first.dx.size(); ++i) {
      EXPECT_NEAR(some.dx[i], first.dx[i],
                  of_some.dx_bound[i] + of_first.dx_bound[i])
          << i;
    }
    for (int64_t i = first.dx.size(); i < some.dx.size(); ++i) {
      EXPECT_EQ(some.dx[i], 0) << i;
    }
    for (int64_t i = 0; i < some.dw.size(); ++i) {
      EXPECT_NEAR(some.dw[i], first.dw[i],
                  of_some.dw_bound[i] + of_first.dw_bound[i])
          << i;
    }
  }
}

TEST(HeadLoss, CountsTheTargetsThatNoOtherTokenBeats) {
  // One block of columns, and several.
  for (const HeadLossShape& shape :
       {HeadLossShape{40, 6, 5}, HeadLossShape{300, 16, 1000}}) {
    Trial trial(shape);
    const Oracle oracle(shape, trial.x.Values(), trial.w.Values(),
                        trial.targets);
    int64_t expected = 0, counted = 0;
    for (int64_t n = 0; n < shape.rows; ++n) {
      int32_t& target = trial.targets[n];
      if (target == -100) continue;
      const double* row = &oracle.logits[n * shape.vocabulary];
      const auto best = static_cast<int32_t>(
          std::max_element(row, row + shape.vocabulary) - row);
      if (n % 3 == 0) target = best;
      expected += target == best;
      ++counted;
    }
    ASSERT_TRUE(trial.Forward(2).ok());
    EXPECT_EQ(trial.correct, expected);
    EXPECT_GT(expected, 0);
    EXPECT_LT(expected, counted);
  }
  // Where all logits are equal, no other token beats the target.
  Trial equal({8, 4, 6});
  std::fill_n(equal.x.floats(), equal.x.size(), 0.0f);
  ASSERT_TRUE(equal.Forward(1).ok());
  EXPECT_EQ(equal.correct, 7);  // Row 3 takes no part.
}

TEST(HeadLoss, RefusesTargetsOutsideTheVocabulary) {
  for (int32_t target : {-1, -99, 9, 1 << 30}) {
    Trial trial({5, 4, 9});
    trial.targets[3] = target;
    const absl::Status forward = trial.Forward(1);
    EXPECT_EQ(forward.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(forward.message().find("row 3"), absl::string_view::npos);
    EXPECT_EQ(trial.Backward(1).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(std::isnan(trial.dx[0])) << "wrote before it refused";
  }
}

TEST(HeadLoss, RefusesToAddToTheWeightItself) {
  Trial trial({5, 4, 9});
  ASSERT_TRUE(trial.Forward(1).ok());
  EXPECT_EQ(trial.Backward(1, 1, true, true).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HeadLoss, SurvivesLargeLogitsAndShowsNaNs) {
  Trial trial({6, 4, 500});
  for (int64_t i = 0; i < trial.w.size(); ++i) {
    trial.w.Set(i, 1e4 * trial.w[i]);
  }
  ASSERT_TRUE(trial.Forward(1).ok());
  ASSERT_TRUE(trial.Backward(1).ok());
  EXPECT_TRUE(std::isfinite(trial.loss[0]));
  for (int64_t i = 0; i < trial.dx.size(); ++i) {
    ASSERT_TRUE(std::isfinite(trial.dx[i]));
  }
  trial.x.Set(0, std::nan(""));
  ASSERT_TRUE(trial.Forward(1).ok());
  EXPECT_TRUE(std::isnan(trial.loss[0]));
  EXPECT_TRUE(std::isfinite(trial.lse[1]));
}

}  // namespace
}  // namespace castor::kernels
