#include "kernels/position_loss/position_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/run_everywhere.h"

namespace castor::kernels {
namespace {

// Samples of documents of these lengths, which fill each.
struct Trial {
  Trial(DType dtype, const std::vector<std::vector<int32_t>>& lengths,
        int64_t columns, int64_t column)
      : shape{.samples = static_cast<int64_t>(lengths.size()),
              .positions =
                  std::accumulate(lengths[0].begin(), lengths[0].end(), 0),
              .columns = columns,
              .column = column,
              .dtype = dtype},
        logits(dtype, shape.rows() * columns) {
    for (const std::vector<int32_t>& sample : lengths) {
      int32_t begin = 0;
      for (const int32_t length : sample) {
        const DocumentRange range = {begin, begin + length};
        documents.insert(documents.end(), length, range);
        begin = range.end;
      }
    }
    logits.FillNormal(random, 2);
    targets.assign(shape.rows(), -100);
    int64_t number = 0;
    for (int64_t n = 0; n < shape.rows(); ++n) {
      if (First(n) != n || number++ % 4 == 2) continue;
      targets[n] =
          static_cast<int32_t>(random() % static_cast<uint64_t>(Tokens(n)));
    }
  }
  int64_t First(int64_t n) const {
    return n / shape.positions * shape.positions + documents[n].begin;
  }
  int64_t Tokens(int64_t n) const {
    return documents[n].end - documents[n].begin;
  }
  double Logit(int64_t n) const {
    return logits[n * shape.columns + shape.column];
  }
  PositionLossForwardArgs Forward(float* loss, float* lse,
                                  int32_t* correct = nullptr) const {
    return {.shape = shape,
            .logits = logits.data(),
            .documents = documents.data(),
            .targets = targets.data(),
            .scale = 0.5f,
            .loss = loss,
            .lse = lse,
            .correct = correct};
  }
  PositionLossBackwardArgs Backward(const float* lse, void* dlogits) const {
    return {.shape = shape,
            .logits = logits.data(),
            .documents = documents.data(),
            .targets = targets.data(),
            .lse = lse,
            .loss_grad = 1.5f,
            .dlogits = dlogits};
  }

  std::mt19937_64 random{7};
  PositionLossShape shape;
  GuardedBuffer logits;
  std::vector<DocumentRange> documents;
  std::vector<int32_t> targets;
};

const std::vector<std::vector<int32_t>> kLengths = {
    {40, 1, 1, 3}, {45}, {31, 14}, {2, 33, 10}};

TEST(PositionLoss, IsTheCrossEntropyOverEachDocumentsPositions) {
  for (DType dtype : kAllTypes) {
    for (const int64_t columns : {1, 2, 3}) {
      const Trial trial(dtype, kLengths, columns, columns - 1);
      const int64_t rows = trial.shape.rows();
      GuardedBuffer loss(DType::kFloat32, 1), lse(DType::kFloat32, rows);
      GuardedBuffer correct(DType::kFloat32, 1), dlogits(dtype, rows * columns);
      RunOnEveryPool(
          {&loss, &lse, &correct, &dlogits},
          [&](const ExecContext& context, const std::vector<void*>& out) {
            float* const to = static_cast<float*>(out[1]);
            absl::Status status = kernels::Run(
                context, trial.Forward(static_cast<float*>(out[0]), to,
                                       static_cast<int32_t*>(out[2])));
            status.Update(kernels::Run(context, trial.Backward(to, out[3])));
            return status;
          });
      double sum = 0;
      int32_t hits = 0;
      for (int64_t n = 0; n < rows; ++n) {
        const int64_t first = trial.First(n), tokens = trial.Tokens(n);
        const int32_t target = trial.targets[first];
        double total = 0, most = trial.Logit(first);
        for (int64_t i = 0; i < tokens; ++i) {
          total += std::exp(trial.Logit(first + i));
          most = std::max(most, trial.Logit(first + i));
        }
        if (first == n && target != -100) {
          EXPECT_NEAR(lse[n], std::log(total), 1e-6) << n;
          sum += std::log(total) - trial.Logit(n + target);
          hits += trial.Logit(n + target) == most ? 1 : 0;
        }
        const double p = std::exp(trial.Logit(n)) / total;
        const double gradient =
            target == -100 ? 0 : 1.5 * (p - (n - first == target ? 1 : 0));
        for (int64_t k = 0; k < columns; ++k) {
          const double expected = k == columns - 1 ? gradient : 0;
          EXPECT_NEAR(dlogits[n * columns + k], expected,
                      1e-6 + RoundingError(dtype, expected))
              << n << " " << k;
        }
      }
      EXPECT_NEAR(loss[0], 0.5 * sum, 1e-5);
      int32_t counted = -1;
      std::memcpy(&counted, correct.data(), sizeof(counted));
      EXPECT_EQ(counted, hits);
      EXPECT_GE(hits, 1);
    }
  }
}

TEST(PositionLoss, DoesNotDependOnWhatSharesTheRow) {
  const Trial packed(DType::kFloat32, {{20, 12}}, 2, 0);
  Trial alone(DType::kFloat32, {{12}}, 2, 0);
  for (int64_t i = 0; i < 24; ++i) alone.logits.Set(i, packed.logits[40 + i]);
  alone.targets[0] = packed.targets[20];
  ASSERT_NE(alone.targets[0], -100);
  ThreadPool pool(1);
  std::vector<float> lse(32), other(12);
  float loss = 0;
  ASSERT_TRUE(
      kernels::Run(ExecContext{&pool}, packed.Forward(&loss, lse.data())).ok());
  ASSERT_TRUE(
      kernels::Run(ExecContext{&pool}, alone.Forward(&loss, other.data()))
          .ok());
  EXPECT_EQ(other[0], lse[20]);
}

TEST(PositionLoss, SamplesAreDocumentsWhereNobodySaysOthers) {
  const Trial trial(DType::kFloat32, {{9}, {9}}, 2, 1);
  ThreadPool pool(1);
  std::vector<float> lse(18), other(18);
  float losses[2] = {};
  PositionLossForwardArgs args = trial.Forward(&losses[0], lse.data());
  ASSERT_TRUE(kernels::Run(ExecContext{&pool}, args).ok());
  args = trial.Forward(&losses[1], other.data());
  args.documents = nullptr;
  ASSERT_TRUE(kernels::Run(ExecContext{&pool}, args).ok());
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(lse, other);
}

TEST(PositionLoss, ShowsNansAndSurvivesLargeLogits) {
  Trial trial(DType::kFloat32, {{8}, {8}}, 1, 0);
  trial.targets[0] = trial.targets[8] = 3;
  for (int64_t i = 0; i < 8; ++i) trial.logits.Set(i, i == 3 ? 1e30 : -1e30);
  ThreadPool pool(1);
  std::vector<float> lse(16);
  GuardedBuffer dlogits(DType::kFloat32, 16);
  float loss = 0;
  int32_t correct = 0;
  const auto run = [&] {
    ASSERT_TRUE(kernels::Run(ExecContext{&pool},
                             trial.Forward(&loss, lse.data(), &correct))
                    .ok());
    ASSERT_TRUE(kernels::Run(ExecContext{&pool},
                             trial.Backward(lse.data(), dlogits.data()))
                    .ok());
  };
  run();
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_EQ(dlogits[3], 0);
  trial.logits.Set(10, std::numeric_limits<double>::quiet_NaN());
  trial.logits.Set(11, 100);  // the target's
  run();
  EXPECT_TRUE(std::isnan(loss));
  EXPECT_EQ(correct, 1);  // the document without a NaN
  EXPECT_TRUE(std::isnan(dlogits[8]));
  EXPECT_FALSE(std::isnan(dlogits[0]));
}

TEST(PositionLoss, RefusesWhatIsNoPosition) {
  ThreadPool pool(1);
  const auto refused = [&](int64_t row, int32_t target) {
    Trial trial(DType::kFloat32, {{5, 7}}, 2, 0);
    trial.targets[row] = target;
    std::vector<float> lse(12);
    float loss = 0;
    const absl::Status status =
        kernels::Run(ExecContext{&pool}, trial.Forward(&loss, lse.data()));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_NE(refused(5, 7).find("position 7, outside of its tokens [0, 7)"),
            std::string::npos);
  EXPECT_NE(refused(0, -1).find("position -1"), std::string::npos);
  EXPECT_NE(refused(6, 0).find("row 6 has the target 0, and is not the first"),
            std::string::npos);
  const PositionLossShape shape = {
      .samples = 1, .positions = 4, .columns = 2, .column = 2};
  EXPECT_FALSE(PositionLossForwardArgs{.shape = shape}.Check().ok());
}

}  // namespace
}  // namespace castor::kernels
