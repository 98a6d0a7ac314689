#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/position_loss/position_loss.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using PositionLossOnGpu = NearOperatorTest;

struct Batch {
  // Samples of `positions` tokens, of documents of `length` tokens each, the
  // last one of the rest.
  Batch(const PositionLossShape& shape, int32_t length, std::mt19937_64& random)
      : shape(shape), logits(shape.dtype, shape.rows() * shape.columns) {
    logits.FillNormal(random, 3);
    targets.assign(shape.rows(), -100);
    const auto end = static_cast<int32_t>(shape.positions);
    for (int64_t n = 0; n < shape.rows(); ++n) {
      const auto at = static_cast<int32_t>(n % shape.positions);
      const int32_t begin = at / length * length;
      const DocumentRange range = {begin, std::min(begin + length, end)};
      documents.push_back(range);
      if (at != begin || random() % 4 == 0) continue;
      targets[n] = static_cast<int32_t>(
          random() % static_cast<uint64_t>(range.end - begin));
    }
  }
  PositionLossForwardArgs Forward(void* loss, void* lse, void* correct) const {
    return {.shape = shape,
            .logits = logits.data(),
            .documents = documents.data(),
            .targets = targets.data(),
            .scale = 0.5f,
            .loss = static_cast<float*>(loss),
            .lse = static_cast<float*>(lse),
            .correct = static_cast<int32_t*>(correct)};
  }
  PositionLossBackwardArgs Backward(const void* lse, void* dlogits) const {
    return {.shape = shape,
            .logits = logits.data(),
            .documents = documents.data(),
            .targets = targets.data(),
            .lse = static_cast<const float*>(lse),
            .loss_grad = 0.25f,
            .dlogits = dlogits};
  }
  // Outputs: loss, lse, correct, dlogits.
  absl::Status RunOnDevice(OnDevice& on, const std::vector<void*>& out) const {
    PositionLossForwardArgs forward = Forward(out[0], out[1], out[2]);
    PositionLossBackwardArgs backward = Backward(out[1], out[3]);
    forward.logits = backward.logits = on.In(logits);
    forward.targets = backward.targets = on.In(targets);
    forward.documents = backward.documents =
        static_cast<const DocumentRange*>(on.CopyBytes(
            documents.data(),
            static_cast<int64_t>(documents.size() * sizeof(DocumentRange))));
    absl::Status status = kernels::Run(on.context(), forward);
    status.Update(kernels::Run(on.context(), backward));
    return status;
  }

  PositionLossShape shape;
  GuardedBuffer logits;
  std::vector<DocumentRange> documents;
  std::vector<int32_t> targets;
};

TEST_F(PositionLossOnGpu, IsNearTheHosts) {
  struct Case {
    int64_t samples, positions, columns, column;
    int32_t length;
  };
  for (DType dtype : kAllTypes) {
    for (const Case& c : {Case{1, 1, 1, 0, 1}, Case{3, 40, 2, 0, 40},
                          Case{5, 33, 2, 1, 7}, Case{2, 300, 3, 1, 290}}) {
      Batch batch({.samples = c.samples,
                   .positions = c.positions,
                   .columns = c.columns,
                   .column = c.column,
                   .dtype = dtype},
                  c.length, random_);
      batch.targets[0] = c.length - 1;
      const int64_t rows = batch.shape.rows();
      GuardedBuffer loss(DType::kFloat32, 1), lse(DType::kFloat32, rows),
          correct(DType::kFloat32, 1), dlogits(dtype, rows * c.columns);
      RunInEveryOrder({&loss, &lse, &correct, &dlogits},
                      [&](OnDevice& on, const auto& out) {
                        return batch.RunOnDevice(on, out);
                      });
      GuardedBuffer host_loss(DType::kFloat32, 1),
          host_lse(DType::kFloat32, rows), host_correct(DType::kFloat32, 1),
          host_dlogits(dtype, rows * c.columns);
      ASSERT_TRUE(
          kernels::Run(host_, batch.Forward(host_loss.data(), host_lse.data(),
                                            host_correct.data()))
              .ok());
      ASSERT_TRUE(kernels::Run(host_, batch.Backward(host_lse.data(),
                                                     host_dlogits.data()))
                      .ok());
      ExpectNear(loss, host_loss, 0x1p-18, static_cast<double>(rows), "loss");
      ExpectNear(lse, host_lse, 0x1p-18, 1, "lse");
      ExpectSame(correct, host_correct, "correct");
      ExpectNear(dlogits, host_dlogits,
                 dtype == DType::kFloat32 ? 0x1p-18 : 4 * UnitRoundoff(dtype),
                 Largest(host_dlogits), "dlogits");
    }
  }
}

TEST_F(PositionLossOnGpu, TellsOfABadTargetAsTheHostDoes) {
  struct Case {
    int64_t row;
    int32_t target;
  };
  for (const Case& bad : {Case{0, 5}, Case{5, -1}, Case{7, 1}}) {
    Batch batch({.samples = 1, .positions = 10, .columns = 2}, 5, random_);
    batch.targets.assign(10, -100);
    batch.targets[bad.row] = bad.target;
    GuardedBuffer loss(DType::kFloat32, 1), lse(DType::kFloat32, 10),
        correct(DType::kFloat32, 1), dlogits(DType::kFloat32, 20);
    const absl::Status expected = kernels::Run(
        host_, batch.Forward(loss.data(), lse.data(), correct.data()));
    ASSERT_FALSE(expected.ok());
    OnDevice on;
    ASSERT_TRUE(batch
                    .RunOnDevice(on, {on.Out(loss), on.Out(lse),
                                      on.Out(correct), on.Out(dlogits)})
                    .ok());
    EXPECT_EQ(on.Finish(), expected);
  }
}

}  // namespace
}  // namespace castor::kernels
