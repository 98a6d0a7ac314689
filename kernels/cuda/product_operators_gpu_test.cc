// Operators whose bits may differ from the host's (products, exponentials):
// compared with the host's, or with double, within what rounding explains.
// Every result must be the same in every order of threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/test_device.h"
#include "kernels/elementwise.h"
#include "kernels/guarded_buffer.h"
#include "kernels/head_loss.h"
#include "kernels/matmul.h"

namespace castor::kernels {
namespace {

using cuda::OnDevice;
using cuda::TestDevice;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class SmallProductOperators : public testing::Test {
 protected:
  void SetUp() override {
    if (TestDevice::Get() == nullptr) {
      GTEST_SKIP() << "SKIPPED: there is no GPU here";
    }
  }
  GuardedBuffer Normal(DType dtype, int64_t size, double scale = 1) {
    GuardedBuffer x(dtype, size);
    x.FillNormal(random_, scale);
    return x;
  }
  ThreadPool pool_{2};
  const ExecContext host_{&pool_};
  std::mt19937_64 random_{3};
};

GuardedBuffer Like(const GuardedBuffer& x) {
  GuardedBuffer copy(x.dtype(), x.size());
  copy.CopyFrom(x);
  return copy;
}

// |got - expected| <= tolerance (floor + |expected|); NaNs where they belong.
void ExpectNear(const GuardedBuffer& got, const GuardedBuffer& expected,
                double tolerance, double floor, const std::string& what) {
  ASSERT_TRUE(got.GuardsIntact()) << what;
  for (int64_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << what << " at " << i;
      continue;
    }
    ASSERT_LE(std::abs(got[i] - expected[i]),
              tolerance * (floor + std::abs(expected[i])))
        << what << " at " << i << " of " << got.size() << ": " << got[i]
        << " against " << expected[i];
  }
}

double Largest(const GuardedBuffer& x) {
  double largest = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(x[i]));
  }
  return largest;
}

// Runs `call` into fresh copies of `outputs` in every order; the first run's
// results stay in `outputs`, the others must equal them bit by bit.
void RunInEveryOrder(
    const std::vector<GuardedBuffer*>& outputs,
    const std::function<absl::Status(OnDevice&, const std::vector<void*>&)>&
        call) {
  std::vector<GuardedBuffer> before;
  for (GuardedBuffer* x : outputs) before.push_back(Like(*x));
  bool first = true;
  TestDevice::Get()->InEveryOrder([&] {
    std::vector<GuardedBuffer> results;
    for (GuardedBuffer& x : before) results.push_back(Like(x));
    OnDevice on;
    std::vector<void*> pointers;
    for (GuardedBuffer& x : results) pointers.push_back(on.Out(x));
    const absl::Status status = call(on, pointers);
    ASSERT_TRUE(status.ok()) << status;
    const absl::Status finished = on.Finish();
    ASSERT_TRUE(finished.ok()) << finished;
    for (size_t i = 0; i < outputs.size(); ++i) {
      ASSERT_TRUE(results[i].GuardsIntact()) << "output " << i;
      if (first) {
        outputs[i]->CopyFrom(results[i]);
      } else {
        ASSERT_TRUE(results[i].SameBits(*outputs[i])) << "output " << i;
      }
    }
    first = false;
  });
}

TEST_F(SmallProductOperators, Gelu) {
  for (DType dtype : kAllTypes) {
    constexpr int64_t kSize = 3001;
    GuardedBuffer x = Normal(dtype, kSize, 3);
    const GuardedBuffer dy = Normal(dtype, kSize);
    const double odd[] = {0,    -0.0,  1e-30, 60,    -60,
                          1e30, -1e30, kNan,  88.8f, -13.2};
    for (int64_t i = 0; i < 10; ++i) {
      // Finite in fp16, too.
      x.Set(i, dtype == DType::kFloat16 && std::abs(odd[i]) > kLargestFloat16
                   ? std::copysign(kLargestFloat16, odd[i])
                   : odd[i]);
    }
    GuardedBuffer y(dtype, kSize), dx(dtype, kSize);
    ASSERT_TRUE(GeluForward(host_, dtype, kSize, x.data(), y.data()).ok());
    ASSERT_TRUE(
        GeluBackward(host_, dtype, kSize, x.data(), dy.data(), dx.data()).ok());
    GuardedBuffer y2(dtype, kSize), dx2(dtype, kSize);
    RunInEveryOrder({&y2, &dx2}, [&](OnDevice& on, const auto& out) {
      const void* px = on.In(x);
      absl::Status status =
          cuda::GeluForward(on.context(), dtype, kSize, px, out[0]);
      status.Update(cuda::GeluBackward(on.context(), dtype, kSize, px,
                                       on.In(dy), out[1]));
      return status;
    });
    // A few ulps of exp, or one rounding to 16 bits; of fp16's least numbers.
    const double tolerance =
        dtype == DType::kFloat32 ? 0x1p-20 : 2 * UnitRoundoff(dtype);
    const double floor = dtype == DType::kFloat16 ? 0x1p-14 : 1e-30;
    ExpectNear(y2, y, tolerance, floor, "GeluForward");
    // The slope passes through 0.
    ExpectNear(dx2, dx, tolerance, 0.25, "GeluBackward");
  }
}

struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b, bias, accumulate;
  DType dtype;
};

TEST_F(SmallProductOperators, Matmul) {
  std::vector<Product> products;
  for (DType dtype : kAllTypes) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        products.push_back({33, 40, 17, ta, tb, false, false, dtype});
        products.push_back({64, 96, 128, ta, tb, true, false, dtype});
        products.push_back({5, 7, 300, ta, tb, false, true, dtype});
        products.push_back({1, 24, 8, ta, tb, true, true, dtype});
        products.push_back({6, 10, 0, ta, tb, true, true, dtype});
      }
    }
  }
  for (const Product& p : products) {
    MatmulArgs args = {.m = p.m,
                       .n = p.n,
                       .k = p.k,
                       .lda = p.transpose_a ? p.m : p.k,
                       .transpose_a = p.transpose_a,
                       .ldb = p.transpose_b ? p.k : p.n,
                       .transpose_b = p.transpose_b,
                       .ldc = p.n + 3,
                       .accumulate = p.accumulate,
                       .dtype = p.dtype};
    const GuardedBuffer a = Normal(p.dtype, p.m * p.k);
    const GuardedBuffer b = Normal(p.dtype, p.k * p.n);
    const GuardedBuffer bias = Normal(p.dtype, p.n);
    const GuardedBuffer before = Normal(p.dtype, p.m * args.ldc);
    GuardedBuffer c = Like(before);
    RunInEveryOrder({&c}, [&](OnDevice& on, const auto& out) {
      GuardedBuffer workspace =
          GuardedBuffer::Workspace(cuda::MatmulWorkspaceBytes(args) + 256);
      args.a = on.In(a);
      args.b = on.In(b);
      args.c = out[0];
      args.bias = p.bias ? on.In(bias) : nullptr;
      args.workspace = on.CopyBytes(workspace.data(), workspace.size() * 4);
      return cuda::Matmul(on.context(), args);
    });
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < args.ldc; ++j) {
        const int64_t at = i * args.ldc + j;
        if (j >= p.n) {
          ASSERT_EQ(c[at], before[at]) << "behind the row";
          continue;
        }
        double sum = (p.bias ? bias[j] : 0) + (p.accumulate ? before[at] : 0);
        double size = std::abs(sum);
        for (int64_t k = 0; k < p.k; ++k) {
          const double term = a[p.transpose_a ? k * p.m + i : i * p.k + k] *
                              b[p.transpose_b ? j * p.k + k : k * p.n + j];
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(c[at] - sum),
                  2 * RoundingError(p.dtype, sum) +
                      static_cast<double>(p.k + 4) * 0x1p-24 * size)
            << p.m << " x " << p.n << " x " << p.k << " at " << i << ", " << j;
      }
    }
  }
}

TEST_F(SmallProductOperators, MatmulRefusesWhatItsBitsWouldDependOn) {
  const GuardedBuffer x = Normal(DType::kFloat32, 64);
  OnDevice on;
  char* p = static_cast<char*>(const_cast<void*>(on.In(x)));
  const MatmulArgs args = {.m = 2,
                           .n = 2,
                           .k = 2,
                           .a = p + 4,
                           .lda = 2,
                           .b = p,
                           .ldb = 2,
                           .c = p,
                           .ldc = 2,
                           .workspace = on.CopyBytes(nullptr, 0)};
  EXPECT_EQ(cuda::Matmul(on.context(), args).code(),
            absl::StatusCode::kInvalidArgument);
}

struct Head {
  Head(const HeadLossShape& shape, std::mt19937_64& random, double scale)
      : shape(shape),
        x(shape.dtype, shape.rows * shape.channels),
        w(shape.dtype, shape.vocabulary * shape.channels),
        targets(shape.rows),
        loss(DType::kFloat32, 1),
        lse(DType::kFloat32, shape.rows),
        dx(shape.dtype, x.size()),
        dw(shape.dtype, w.size()) {
    x.FillNormal(random, scale);
    w.FillNormal(random);
    for (int32_t& t : targets) {
      t = random() % 5 == 0
              ? -100
              : static_cast<int32_t>(random() %
                                     static_cast<uint64_t>(shape.vocabulary));
    }
  }
  // On the host, for comparison.
  absl::Status RunOnHost(const ExecContext& host, bool accumulate) {
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        std::max(HeadLossForwardWorkspaceBytes(shape),
                 HeadLossBackwardWorkspaceBytes(shape)));
    absl::Status status =
        HeadLossForward(host, {.shape = shape,
                               .x = x.data(),
                               .w = w.data(),
                               .targets = targets.data(),
                               .loss = loss.floats(),
                               .lse = lse.floats(),
                               .workspace = workspace.data()});
    status.Update(HeadLossBackward(host, {.shape = shape,
                                          .x = x.data(),
                                          .w = w.data(),
                                          .targets = targets.data(),
                                          .lse = lse.floats(),
                                          .loss_grad = 0.5,
                                          .dx = dx.data(),
                                          .dw = dw.data(),
                                          .accumulate_dw = accumulate,
                                          .workspace = workspace.data()}));
    return status;
  }
  // outputs: loss, lse, dx, dw.
  absl::Status RunOnDevice(OnDevice& on, const std::vector<void*>& out,
                           bool accumulate) const {
    const int64_t bytes = std::max(cuda::HeadLossForwardWorkspaceBytes(shape),
                                   cuda::HeadLossBackwardWorkspaceBytes(shape));
    // NaNs.
    const GuardedBuffer workspace = GuardedBuffer::Workspace(bytes);
    void* scratch = on.CopyBytes(workspace.data(), bytes);
    const void* px = on.In(x);
    const void* pw = on.In(w);
    const int32_t* pt = on.In(targets);
    float* plse = static_cast<float*>(out[1]);
    absl::Status status = cuda::HeadLossForward(
        on.context(), {.shape = shape,
                       .x = px,
                       .w = pw,
                       .targets = pt,
                       .loss = static_cast<float*>(out[0]),
                       .lse = plse,
                       .workspace = scratch});
    status.Update(
        cuda::HeadLossBackward(on.context(), {.shape = shape,
                                              .x = px,
                                              .w = pw,
                                              .targets = pt,
                                              .lse = plse,
                                              .loss_grad = 0.5,
                                              .dx = out[2],
                                              .dw = out[3],
                                              .accumulate_dw = accumulate,
                                              .workspace = scratch}));
    return status;
  }
  void FillOutputs(std::mt19937_64& random) { dw.FillNormal(random, 0.01); }

  HeadLossShape shape;
  GuardedBuffer x, w;
  std::vector<int32_t> targets;
  GuardedBuffer loss, lse, dx, dw;
};

// Relative to the largest gradient.
double GradientTolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 0x1p-18 : 4 * UnitRoundoff(dtype);
}

TEST_F(SmallProductOperators, HeadLoss) {
  struct Case {
    int64_t rows, channels, vocabulary;
    bool accumulate;
  };
  for (DType dtype : kAllTypes) {
    for (const Case& c : {Case{1, 1, 1, false}, Case{7, 12, 50, true},
                          Case{33, 64, 1000, false}, Case{40, 5, 1031, true},
                          Case{3, 4, 20003, false}}) {
      Head head({c.rows, c.channels, c.vocabulary, dtype}, random_, 1);
      head.targets[0] = static_cast<int32_t>(c.vocabulary - 1);
      head.FillOutputs(random_);
      GuardedBuffer loss(DType::kFloat32, 1), lse(DType::kFloat32, c.rows);
      GuardedBuffer dx(dtype, head.dx.size()), dw = Like(head.dw);
      RunInEveryOrder({&loss, &lse, &dx, &dw},
                      [&](OnDevice& on, const auto& out) {
                        return head.RunOnDevice(on, out, c.accumulate);
                      });
      ASSERT_TRUE(head.RunOnHost(host_, c.accumulate).ok());
      const double unit = GradientTolerance(dtype);
      ExpectNear(loss, head.loss, 0x1p-18, 1, "loss");
      ExpectNear(lse, head.lse, 0x1p-18, 1, "lse");
      ExpectNear(dx, head.dx, unit, Largest(head.dx), "dx");
      ExpectNear(dw, head.dw, unit, Largest(head.dw), "dw");
    }
  }
}

TEST_F(SmallProductOperators, HeadLossGradientMayTakeThePlaceOfTheWeight) {
  for (DType dtype : kAllTypes) {
    Head head({9, 16, 300, dtype}, random_, 1);
    ASSERT_TRUE(head.RunOnHost(host_, false).ok());
    GuardedBuffer place = Like(head.w), dx(dtype, head.dx.size());
    RunInEveryOrder({&place, &dx}, [&](OnDevice& on, const auto& out) {
      const int64_t bytes = cuda::HeadLossBackwardWorkspaceBytes(head.shape);
      const GuardedBuffer workspace = GuardedBuffer::Workspace(bytes);
      return cuda::HeadLossBackward(
          on.context(), {.shape = head.shape,
                         .x = on.In(head.x),
                         .w = out[0],
                         .targets = on.In(head.targets),
                         .lse = on.InFloats(head.lse),
                         .loss_grad = 0.5,
                         .dx = out[1],
                         .dw = out[0],
                         .workspace = on.CopyBytes(workspace.data(), bytes)});
    });
    const double unit = GradientTolerance(dtype);
    ExpectNear(place, head.dw, unit, Largest(head.dw), "dw");
    ExpectNear(dx, head.dx, unit, Largest(head.dx), "dx");
  }
}

TEST_F(SmallProductOperators, HeadLossOfIgnoredRowsIsNanWithZeroGradients) {
  Head head({4, 8, 20, DType::kBFloat16}, random_, 1);
  head.targets.assign(4, -100);
  RunInEveryOrder({&head.loss, &head.lse, &head.dx, &head.dw},
                  [&](OnDevice& on, const auto& out) {
                    return head.RunOnDevice(on, out, false);
                  });
  EXPECT_TRUE(std::isnan(head.loss[0]));
  EXPECT_EQ(Largest(head.dx), 0);
  EXPECT_EQ(Largest(head.dw), 0);
}

TEST_F(SmallProductOperators, HeadLossSurvivesLargeLogitsAndShowsNans) {
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

TEST_F(SmallProductOperators, HeadLossTellsOfABadTargetAsTheHostDoes) {
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

TEST_F(SmallProductOperators, HeadLossHoldsOneTileOfLogits) {
  for (DType dtype : kAllTypes) {
    const HeadLossShape shape = {8192, 1600, 50257, dtype};
    const int64_t logits = shape.rows * shape.vocabulary * 4;
    EXPECT_LT(cuda::HeadLossForwardWorkspaceBytes(shape), logits / 16);
    EXPECT_LT(cuda::HeadLossBackwardWorkspaceBytes(shape), logits / 12);
  }
}

TEST_F(SmallProductOperators, HeadLogits) {
  for (DType dtype : kAllTypes) {
    const HeadLossShape shape = {6, 24, 77, dtype};
    const GuardedBuffer x = Normal(dtype, 6 * 24);
    const GuardedBuffer w = Normal(dtype, 77 * 24);
    GuardedBuffer expected(DType::kFloat32, 6 * 77);
    ASSERT_TRUE(
        HeadLogits(host_, shape, x.data(), w.data(), expected.floats(), nullptr)
            .ok());
    GuardedBuffer logits(DType::kFloat32, 6 * 77);
    RunInEveryOrder({&logits}, [&](OnDevice& on, const auto& out) {
      const int64_t bytes = cuda::HeadLogitsWorkspaceBytes(shape);
      const GuardedBuffer workspace = GuardedBuffer::Workspace(bytes);
      return cuda::HeadLogits(on.context(), shape, on.In(x), on.In(w),
                              static_cast<float*>(out[0]),
                              on.CopyBytes(workspace.data(), bytes));
    });
    ExpectNear(logits, expected, 0x1p-18, 5, "HeadLogits");
  }
}

}  // namespace
}  // namespace castor::kernels
