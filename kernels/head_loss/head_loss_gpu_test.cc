#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/head_loss/head_loss.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using HeadLossOnGpu = NearOperatorTest;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Head {
  Head(const HeadLossShape& shape, std::mt19937_64& random, double scale,
       bool has_bias = false)
      : shape(shape),
        has_bias(has_bias),
        x(shape.dtype, shape.rows * shape.channels),
        w(shape.dtype, shape.vocabulary * shape.channels),
        bias(shape.dtype, shape.vocabulary),
        targets(shape.rows),
        loss(DType::kFloat32, 1),
        lse(DType::kFloat32, shape.rows),
        dx(shape.dtype, x.size()),
        dw(shape.dtype, w.size()),
        db(shape.dtype, shape.vocabulary) {
    x.FillNormal(random, scale);
    w.FillNormal(random);
    if (has_bias) bias.FillNormal(random);
    for (int32_t& t : targets) {
      t = random() % 5 == 0
              ? -100
              : static_cast<int32_t>(random() %
                                     static_cast<uint64_t>(shape.vocabulary));
    }
  }
  // Computes on the host, for comparison.
  absl::Status RunOnHost(const ExecContext& host, bool accumulate) {
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        std::max(HeadLossForwardArgs{.shape = shape}.CpuWorkspaceBytes(),
                 HeadLossBackwardArgs{.shape = shape}.CpuWorkspaceBytes()));
    absl::Status status =
        kernels::Run(host, HeadLossForwardArgs{.shape = shape,
                                               .x = x.data(),
                                               .w = w.data(),
                                               .bias = OrNull(bias.data()),
                                               .targets = targets.data(),
                                               .loss = loss.floats(),
                                               .lse = lse.floats(),
                                               .workspace = workspace.data()});
    status.Update(kernels::Run(
        host, HeadLossBackwardArgs{.shape = shape,
                                   .x = x.data(),
                                   .w = w.data(),
                                   .bias = OrNull(bias.data()),
                                   .targets = targets.data(),
                                   .lse = lse.floats(),
                                   .loss_grad = 0.5,
                                   .dx = dx.data(),
                                   .dw = dw.data(),
                                   .accumulate_dw = accumulate,
                                   .db = OrNull(db.data()),
                                   .accumulate_db = accumulate,
                                   .workspace = workspace.data()}));
    return status;
  }
  // outputs: loss, lse, dx, dw, and of a head with a bias db.
  absl::Status RunOnDevice(OnDevice& on, const std::vector<void*>& out,
                           bool accumulate) const {
    const int64_t bytes =
        std::max(HeadLossForwardArgs{.shape = shape}.GpuWorkspaceBytes(),
                 HeadLossBackwardArgs{.shape = shape}.GpuWorkspaceBytes());
    // NaNs.
    const GuardedBuffer workspace = GuardedBuffer::Workspace(bytes);
    void* scratch = on.CopyBytes(workspace.data(), bytes);
    const void* px = on.In(x);
    const void* pw = on.In(w);
    const void* pb = OrNull(on.In(bias));
    const int32_t* pt = on.In(targets);
    float* plse = static_cast<float*>(out[1]);
    absl::Status status = kernels::Run(
        on.context(), HeadLossForwardArgs{.shape = shape,
                                          .x = px,
                                          .w = pw,
                                          .bias = pb,
                                          .targets = pt,
                                          .loss = static_cast<float*>(out[0]),
                                          .lse = plse,
                                          .workspace = scratch});
    status.Update(kernels::Run(
        on.context(), HeadLossBackwardArgs{.shape = shape,
                                           .x = px,
                                           .w = pw,
                                           .bias = pb,
                                           .targets = pt,
                                           .lse = plse,
                                           .loss_grad = 0.5,
                                           .dx = out[2],
                                           .dw = out[3],
                                           .accumulate_dw = accumulate,
                                           .db = has_bias ? out[4] : nullptr,
                                           .accumulate_db = accumulate,
                                           .workspace = scratch}));
    return status;
  }
  void FillOutputs(std::mt19937_64& random) {
    dw.FillNormal(random, 0.01);
    db.FillNormal(random, 0.01);
  }
  template <class T>
  T* OrNull(T* of_bias) const {
    return has_bias ? of_bias : nullptr;
  }

  HeadLossShape shape;
  bool has_bias;
  GuardedBuffer x, w, bias;
  std::vector<int32_t> targets;
  GuardedBuffer loss, lse, dx, dw, db;
};

// Relative to the largest gradient.
double GradientTolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 0x1p-18 : 4 * UnitRoundoff(dtype);
}

TEST_F(HeadLossOnGpu, IsNearTheHosts) {
  struct Case {
    int64_t rows, channels, vocabulary;
    bool accumulate, has_bias = false;
  };
  for (DType dtype : kAllTypes) {
    for (const Case& c :
         {Case{1, 1, 1, false}, Case{7, 12, 50, true},
          Case{33, 64, 1000, false}, Case{40, 5, 1031, true, true},
          Case{3, 4, 20003, false}, Case{9, 8, 2, false, true},
          Case{70, 16, 2056, false, true}}) {
      Head head({c.rows, c.channels, c.vocabulary, dtype}, random_, 1,
                c.has_bias);
      head.targets[0] = static_cast<int32_t>(c.vocabulary - 1);
      head.FillOutputs(random_);
      GuardedBuffer loss(DType::kFloat32, 1), lse(DType::kFloat32, c.rows);
      GuardedBuffer dx(dtype, head.dx.size()), dw = CopyOf(head.dw),
                                               db = CopyOf(head.db);
      RunInEveryOrder({&loss, &lse, &dx, &dw, &db},
                      [&](OnDevice& on, const auto& out) {
                        return head.RunOnDevice(on, out, c.accumulate);
                      });
      ASSERT_TRUE(head.RunOnHost(host_, c.accumulate).ok());
      const double unit = GradientTolerance(dtype);
      ExpectNear(loss, head.loss, 0x1p-18, static_cast<double>(c.rows), "loss");
      ExpectNear(lse, head.lse, 0x1p-18, 1, "lse");
      ExpectNear(dx, head.dx, unit, Largest(head.dx), "dx");
      ExpectNear(dw, head.dw, unit, Largest(head.dw), "dw");
      ExpectNear(db, head.db, unit, Largest(head.db), "db");
    }
  }
}

TEST_F(HeadLossOnGpu, GradientMayTakeThePlaceOfTheWeight) {
  for (DType dtype : kAllTypes) {
    Head head({9, 16, 300, dtype}, random_, 1);
    ASSERT_TRUE(head.RunOnHost(host_, false).ok());
    GuardedBuffer place = CopyOf(head.w), dx(dtype, head.dx.size());
    RunInEveryOrder({&place, &dx}, [&](OnDevice& on, const auto& out) {
      const int64_t bytes =
          HeadLossBackwardArgs{.shape = head.shape}.GpuWorkspaceBytes();
      const GuardedBuffer workspace = GuardedBuffer::Workspace(bytes);
      return kernels::Run(on.context(),
                          HeadLossBackwardArgs{.shape = head.shape,
                                               .x = on.In(head.x),
                                               .w = out[0],
                                               .targets = on.In(head.targets),
                                               .lse = on.InFloats(head.lse),
                                               .loss_grad = 0.5,
                                               .dx = out[1],
                                               .dw = out[0],
                                               .workspace = on.CopyBytes(
                                                   workspace.data(), bytes)});
    });
    const double unit = GradientTolerance(dtype);
    ExpectNear(place, head.dw, unit, Largest(head.dw), "dw");
    ExpectNear(dx, head.dx, unit, Largest(head.dx), "dx");
  }
}

TEST_F(HeadLossOnGpu, CountsTheSameTargetsAsTheHost) {
  for (DType dtype : kAllTypes) {
    // With one segment of columns, and with several in several tiles.
    for (const HeadLossShape& shape : {HeadLossShape{33, 64, 100, dtype},
                                       HeadLossShape{600, 8, 17000, dtype}}) {
      Head head(shape, random_, 1);
      // Every third target is the token that the row is most like.
      const std::vector<double> x = head.x.Values(), w = head.w.Values();
      for (int64_t n = 0; n < std::min<int64_t>(shape.rows, 60); n += 3) {
        double most = -std::numeric_limits<double>::infinity();
        for (int64_t v = 0; v < shape.vocabulary; ++v) {
          double logit = 0;
          for (int64_t c = 0; c < shape.channels; ++c) {
            logit += x[n * shape.channels + c] * w[v * shape.channels + c];
          }
          if (logit <= most) continue;
          most = logit;
          head.targets[n] = static_cast<int32_t>(v);
        }
      }
      const auto forward = [&](const void* x, const void* w,
                               const int32_t* targets, float* loss, float* lse,
                               int32_t* correct, void* workspace) {
        return HeadLossForwardArgs{.shape = shape,
                                   .x = x,
                                   .w = w,
                                   .targets = targets,
                                   .loss = loss,
                                   .lse = lse,
                                   .correct = correct,
                                   .workspace = workspace};
      };
      const int64_t bytes =
          std::max(HeadLossForwardArgs{.shape = shape}.CpuWorkspaceBytes(),
                   HeadLossForwardArgs{.shape = shape}.GpuWorkspaceBytes());
      GuardedBuffer workspace = GuardedBuffer::Workspace(bytes);
      int32_t expected = -1;
      ASSERT_TRUE(
          kernels::Run(
              host_, forward(head.x.data(), head.w.data(), head.targets.data(),
                             head.loss.floats(), head.lse.floats(), &expected,
                             workspace.data()))
              .ok());
      EXPECT_GE(expected, 10);
      GuardedBuffer correct(DType::kFloat32, 1);
      RunInEveryOrder({&head.loss, &head.lse, &correct}, [&](OnDevice& on,
                                                             const auto& out) {
        return kernels::Run(
            on.context(),
            forward(on.In(head.x), on.In(head.w), on.In(head.targets),
                    static_cast<float*>(out[0]), static_cast<float*>(out[1]),
                    static_cast<int32_t*>(out[2]),
                    on.CopyBytes(workspace.data(), bytes)));
      });
      int32_t counted = -1;
      std::memcpy(&counted, correct.data(), sizeof(counted));
      EXPECT_EQ(counted, expected);
    }
  }
}

TEST_F(HeadLossOnGpu, OfIgnoredRowsIsZeroWithZeroGradients) {
  Head head({4, 8, 20, DType::kBFloat16}, random_, 1);
  head.targets.assign(4, -100);
  RunInEveryOrder({&head.loss, &head.lse, &head.dx, &head.dw},
                  [&](OnDevice& on, const auto& out) {
                    return head.RunOnDevice(on, out, false);
                  });
  EXPECT_EQ(head.loss[0], 0);
  EXPECT_EQ(Largest(head.dx), 0);
  EXPECT_EQ(Largest(head.dw), 0);
}

TEST_F(HeadLossOnGpu, SurvivesLargeLogitsAndShowsNans) {
  Head large({5, 8, 40, DType::kFloat32}, random_, 1e4);
  Head result({5, 8, 40, DType::kFloat32}, random_, 1);
  RunInEveryOrder({&result.loss, &result.lse, &result.dx, &result.dw},
                  [&](OnDevice& on, const auto& out) {
                    return large.RunOnDevice(on, out, false);
                  });
  ASSERT_TRUE(large.RunOnHost(host_, false).ok());
  ExpectNear(result.loss, large.loss, 1e-5, 1, "loss");
  ExpectNear(result.dx, large.dx, 1e-4, Largest(large.dx), "dx");
  large.x.Set(11, kNan);
  large.targets[1] = 0;
  RunInEveryOrder({&result.loss, &result.lse, &result.dx, &result.dw},
                  [&](OnDevice& on, const auto& out) {
                    return large.RunOnDevice(on, out, false);
                  });
  EXPECT_TRUE(std::isnan(result.loss[0]));
  EXPECT_TRUE(std::isnan(result.dx[8]));
  EXPECT_FALSE(std::isnan(result.dx[0]));
}

TEST_F(HeadLossOnGpu, TellsOfABadTargetAsTheHostDoes) {
  for (int32_t bad : {-1, 20, 100000}) {
    Head head({4, 8, 20, DType::kFloat32}, random_, 1);
    head.targets[2] = bad;
    const absl::Status expected = head.RunOnHost(host_, false);
    ASSERT_FALSE(expected.ok());
    OnDevice on;
    ASSERT_TRUE(head.RunOnDevice(on,
                                 {on.Out(head.loss), on.Out(head.lse),
                                  on.Out(head.dx), on.Out(head.dw)},
                                 false)
                    .ok());
    EXPECT_EQ(on.Finish(), expected);
  }
}

// Beside the tile, 16 bytes for each element of x or what a small device has
// room for, backward holds dx in fp32 and a product's workspace.
TEST_F(HeadLossOnGpu, HoldsOneTileOfLogits) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  struct Case {
    int64_t rows, channels, tile_bytes;
  };
  for (const Case& c : {
           Case{1024, 768, 32 * kMiB},
           Case{2048, 4096, 128 * kMiB},
           Case{8192, 64, 32 * kMiB},
           Case{8192, 1600, 200 * kMiB},
           Case{16384, 768, 192 * kMiB},
           Case{16384, 4096, 256 * kMiB},
       }) {
    for (DType dtype : kAllTypes) {
      const HeadLossShape shape = {c.rows, c.channels, 50257, dtype};
      const int64_t forward =
          HeadLossForwardArgs{.shape = shape}.GpuWorkspaceBytes();
      EXPECT_GT(forward, 24 * kMiB);
      EXPECT_LT(forward, 32 * kMiB + c.rows * (50257 / 64 + 8) + 33 * kMiB);
      const int64_t backward =
          HeadLossBackwardArgs{.shape = shape}.GpuWorkspaceBytes();
      const int64_t dx = 4 * c.rows * c.channels;
      EXPECT_GT(backward, c.tile_bytes * 3 / 4);
      EXPECT_LT(backward, c.tile_bytes + dx + 33 * kMiB)
          << c.rows << " rows of " << c.channels;
    }
  }
}

}  // namespace
}  // namespace castor::kernels
