// Operators that give the host's bits on a GPU: each is compared with the
// host's (whose own tests compare it with an oracle) over sizes, alignments and
// types, in every order of threads.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/adam.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/test_device.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/exact_sum.h"
#include "kernels/guarded_buffer.h"
#include "kernels/layer_norm.h"

namespace castor::kernels {
namespace {

using cuda::OnDevice;
using cuda::TestDevice;

constexpr RandomKey kKey{0x1234567890abcdefu, 77};

// On both sides of a block's elements.
constexpr int64_t kSizes[] = {0,   1,    2,    3,    255, 256,
                              257, 2047, 2048, 2049, 5000};

// Twice: with all operands aligned, so that they are read in runs, and with
// none.
class SmallExactOperators : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (TestDevice::Get() == nullptr) {
      GTEST_SKIP() << "SKIPPED: there is no GPU here";
    }
  }
  ThreadPool pool_{2};
  const ExecContext host_{&pool_};
  std::mt19937_64 random_{11};

  // `shift` elements behind an aligned place, where not all are aligned.
  GuardedBuffer Normal(DType dtype, int64_t size, int64_t shift) {
    GuardedBuffer x = Empty(dtype, size, shift);
    x.FillNormal(random_);
    return x;
  }
  GuardedBuffer Empty(DType dtype, int64_t size, int64_t shift = 0) {
    return GuardedBuffer(dtype, size, GetParam() ? 0 : shift);
  }
  // A copy.
  GuardedBuffer Like(const GuardedBuffer& x, int64_t shift) {
    GuardedBuffer copy = Empty(x.dtype(), x.size(), shift);
    copy.CopyFrom(x);
    return copy;
  }
  static void InEveryOrder(const std::function<void()>& body) {
    TestDevice::Get()->InEveryOrder(body);
  }
};

// NaNs are equal, whichever they are.
void ExpectSame(const GuardedBuffer& got, const GuardedBuffer& expected,
                const char* what) {
  ASSERT_TRUE(got.GuardsIntact()) << what;
  if (got.SameBits(expected)) return;
  for (int64_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<uint64_t>(got[i]),
              std::bit_cast<uint64_t>(expected[i]))
        << what << " at " << i << " of " << got.size() << ": " << got[i]
        << " against " << expected[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Operands, SmallExactOperators, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "aligned" : "anywhere";
                         });

TEST_P(SmallExactOperators, Add) {
  for (DType dtype : kAllTypes) {
    for (int64_t size : kSizes) {
      const GuardedBuffer a = Normal(dtype, size, 1);
      const GuardedBuffer b = Normal(dtype, size, 2);
      GuardedBuffer expected(dtype, size);
      ASSERT_TRUE(
          Add(host_, dtype, size, a.data(), b.data(), expected.data()).ok());
      InEveryOrder([&] {
        GuardedBuffer y = Empty(dtype, size, 3);
        GuardedBuffer in_place = Like(a, 1);
        OnDevice on;
        ASSERT_TRUE(
            cuda::Add(on.context(), dtype, size, on.In(a), on.In(b), on.Out(y))
                .ok());
        void* p = on.Out(in_place);
        ASSERT_TRUE(cuda::Add(on.context(), dtype, size, p, on.In(b), p).ok());
        ASSERT_TRUE(on.Finish().ok());
        ExpectSame(y, expected, "Add");
        ExpectSame(in_place, expected, "Add in place");
      });
    }
  }
}

TEST_P(SmallExactOperators, Cast) {
  for (DType from : kAllTypes) {
    for (DType to : kAllTypes) {
      for (int64_t size : kSizes) {
        GuardedBuffer x = Normal(from, size, 1);
        if (size > 3) {
          x.Set(1, std::numeric_limits<double>::quiet_NaN());
          x.Set(2, std::numeric_limits<double>::infinity());
          x.Set(3, 1e-42);
        }
        GuardedBuffer expected(to, size);
        ASSERT_TRUE(
            Cast(host_, size, from, x.data(), to, expected.data()).ok());
        InEveryOrder([&] {
          GuardedBuffer y = Empty(to, size, 3);
          OnDevice on;
          ASSERT_TRUE(
              cuda::Cast(on.context(), size, from, on.In(x), to, on.Out(y))
                  .ok());
          ASSERT_TRUE(on.Finish().ok());
          ExpectSame(y, expected, "Cast");
        });
      }
    }
  }
}

TEST_P(SmallExactOperators, Dropout) {
  for (DType dtype : kAllTypes) {
    for (int64_t size : kSizes) {
      for (float p : {0.0f, 0.1f, 0.75f}) {
        for (bool residual : {false, true}) {
          const GuardedBuffer x = Normal(dtype, size, 1);
          const GuardedBuffer r = Normal(dtype, size, 3);
          GuardedBuffer expected(dtype, size);
          ASSERT_TRUE(Dropout(host_, dtype, size, p, kKey, x.data(),
                              residual ? r.data() : nullptr, expected.data())
                          .ok());
          InEveryOrder([&] {
            GuardedBuffer y = Empty(dtype, size, 2);
            OnDevice on;
            ASSERT_TRUE(cuda::Dropout(on.context(), dtype, size, p, kKey,
                                      on.In(x), residual ? on.In(r) : nullptr,
                                      on.Out(y))
                            .ok());
            ASSERT_TRUE(on.Finish().ok());
            ExpectSame(y, expected, "Dropout");
          });
        }
      }
    }
  }
}

TEST_P(SmallExactOperators, BiasGradient) {
  for (DType dtype : kAllTypes) {
    for (int64_t rows : {0, 1, 31, 32, 33, 512, 513, 1024, 2100}) {
      for (int64_t channels : {1, 16, 31, 32, 40, 70}) {
        for (bool accumulate : {false, true}) {
          const GuardedBuffer dy = Normal(dtype, rows * channels, 1);
          const GuardedBuffer before = Normal(dtype, channels, 0);
          GuardedBuffer expected = Like(before, 0);
          ASSERT_TRUE(BiasGradient(host_, dtype, rows, channels, dy.data(),
                                   expected.data(), accumulate)
                          .ok());
          InEveryOrder([&] {
            GuardedBuffer db = Like(before, 1);
            OnDevice on;
            ASSERT_TRUE(cuda::BiasGradient(on.context(), dtype, rows, channels,
                                           on.In(dy), on.Out(db), accumulate)
                            .ok());
            ASSERT_TRUE(on.Finish().ok());
            ExpectSame(db, expected, "BiasGradient");
          });
        }
      }
    }
  }
}

TEST_P(SmallExactOperators, LayerNorm) {
  for (DType dtype : kAllTypes) {
    for (int64_t rows : {1, 7, 8, 9, 100, 600}) {
      for (int64_t channels : {1, 31, 32, 33, 100, 768}) {
        if (rows > 100 && channels > 33) continue;
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
        ASSERT_TRUE(LayerNormForward(host_, shape, 1e-5f, x.data(),
                                     gamma.data(), beta.data(), y.data(),
                                     mean.floats(), rstd.floats())
                        .ok());
        const auto backward = [&](const void* residual, GuardedBuffer& out) {
          return LayerNormBackwardInput(host_, shape, dy.data(), x.data(),
                                        gamma.data(), mean.floats(),
                                        rstd.floats(), residual, out.data());
        };
        ASSERT_TRUE(backward(r.data(), dx).ok());
        ASSERT_TRUE(backward(nullptr, plain).ok());
        ASSERT_TRUE(LayerNormBackwardParameters(
                        host_, shape, dy.data(), x.data(), mean.floats(),
                        rstd.floats(), dgamma.data(), nullptr, false)
                        .ok());
        ASSERT_TRUE(LayerNormBackwardParameters(
                        host_, shape, dy.data(), x.data(), mean.floats(),
                        rstd.floats(), nullptr, dbeta.data(), true)
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
          ASSERT_TRUE(cuda::LayerNormForward(gpu, shape, 1e-5f, px, pgamma,
                                             on.In(beta), on.Out(y2), pmean,
                                             prstd)
                          .ok());
          ASSERT_TRUE(cuda::LayerNormBackwardInput(gpu, shape, pdy, px, pgamma,
                                                   pmean, prstd, pdx, pdx)
                          .ok());
          ASSERT_TRUE(cuda::LayerNormBackwardInput(gpu, shape, pdy, px, pgamma,
                                                   pmean, prstd, nullptr,
                                                   on.Out(plain2))
                          .ok());
          ASSERT_TRUE(cuda::LayerNormBackwardParameters(
                          gpu, shape, pdy, px, pmean, prstd, on.Out(dgamma2),
                          nullptr, false)
                          .ok());
          ASSERT_TRUE(cuda::LayerNormBackwardParameters(gpu, shape, pdy, px,
                                                        pmean, prstd, nullptr,
                                                        on.Out(dbeta2), true)
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
}

TEST_P(SmallExactOperators, Embedding) {
  struct Case {
    int64_t rows, channels, vocabulary;
  };
  for (const Case& c : {Case{1, 1, 1}, Case{7, 33, 5}, Case{300, 300, 40},
                        Case{2100, 24, 3}, Case{0, 8, 4}}) {
    for (DType dtype : kAllTypes) {
      for (bool accumulate : {false, true}) {
        std::vector<int32_t> indices(c.rows);
        for (int32_t& i : indices)
          i = static_cast<int32_t>(random_() %
                                   static_cast<uint64_t>(c.vocabulary));
        const GuardedBuffer table = Normal(dtype, c.vocabulary * c.channels, 1);
        const GuardedBuffer dy = Normal(dtype, c.rows * c.channels, 3);
        const GuardedBuffer before = Normal(dtype, c.rows * c.channels, 0);
        GuardedBuffer y = Like(before, 0);
        GuardedBuffer dtable = Like(table, 0);
        ASSERT_TRUE(EmbeddingForward(host_, dtype, c.rows, c.channels,
                                     c.vocabulary, indices.data(), table.data(),
                                     y.data(), accumulate)
                        .ok());
        ASSERT_TRUE(EmbeddingBackward(host_, dtype, c.rows, c.channels,
                                      c.vocabulary, indices.data(), dy.data(),
                                      dtable.data(), accumulate)
                        .ok());
        InEveryOrder([&] {
          GuardedBuffer y2 = Like(before, 1);
          GuardedBuffer dtable2 = Like(table, 2);
          OnDevice on;
          const int32_t* p = on.In(indices);
          ASSERT_TRUE(cuda::EmbeddingForward(
                          on.context(), dtype, c.rows, c.channels, c.vocabulary,
                          p, on.In(table), on.Out(y2), accumulate)
                          .ok());
          ASSERT_TRUE(cuda::EmbeddingBackward(
                          on.context(), dtype, c.rows, c.channels, c.vocabulary,
                          p, on.In(dy), on.Out(dtable2), accumulate)
                          .ok());
          ASSERT_TRUE(on.Finish().ok());
          ExpectSame(y2, y, "EmbeddingForward");
          ExpectSame(dtable2, dtable, "EmbeddingBackward");
        });
      }
    }
  }
}

TEST_P(SmallExactOperators, EmbeddingTellsOfABadIndexAsTheHostDoes) {
  for (int32_t bad : {-1, 3, 1000}) {
    const std::vector<int32_t> indices = {0, bad};
    GuardedBuffer table = Normal(DType::kFloat32, 6, 0);
    GuardedBuffer y(DType::kFloat32, 4);
    const absl::Status expected =
        EmbeddingForward(host_, DType::kFloat32, 2, 2, 3, indices.data(),
                         table.data(), y.data(), false);
    const absl::Status expected_backward =
        EmbeddingBackward(host_, DType::kFloat32, 2, 2, 3, indices.data(),
                          y.data(), table.data(), false);
    ASSERT_FALSE(expected.ok());
    OnDevice on;
    ASSERT_TRUE(cuda::EmbeddingForward(on.context(), DType::kFloat32, 2, 2, 3,
                                       on.In(indices), on.In(table), on.Out(y),
                                       false)
                    .ok());
    EXPECT_EQ(on.Finish(), expected);
    ASSERT_TRUE(cuda::EmbeddingBackward(on.context(), DType::kFloat32, 2, 2, 3,
                                        on.In(indices), on.In(y), on.Out(table),
                                        false)
                    .ok());
    EXPECT_EQ(on.Finish(), expected_backward);
    EXPECT_TRUE(on.Finish().ok());  // Told once.
    EXPECT_TRUE(y.GuardsIntact() && table.GuardsIntact());
  }
}

// With its carries settled: the host settles them as it adds, a GPU does not.
ExactSum Settled(const ExactSum& sum) {
  ExactSum settled;
  settled.Add(sum);
  return settled;
}

TEST_P(SmallExactOperators, AddSquares) {
  for (DType dtype : kAllTypes) {
    for (int64_t size : {0, 1, 63, 64, 65, 2047, 2048, 32768, 32769, 100003}) {
      for (double scale : {1.0, 1e-30, 1e15}) {
        GuardedBuffer x = Empty(dtype, size, 1);
        x.FillNormal(random_, scale);
        ExactSum expected;
        expected.Add(0.7);
        ExactSum sum = expected;
        ASSERT_TRUE(
            AddSquares(host_, size, dtype, x.data(), &expected, 3).ok());
        InEveryOrder([&] {
          OnDevice on;
          ExactSum* p = static_cast<ExactSum*>(on.CopyBytes(&sum, sizeof(sum)));
          ASSERT_TRUE(
              cuda::AddSquares(on.context(), size, dtype, on.In(x), p, 3).ok());
          ASSERT_TRUE(on.Finish().ok());
          ExactSum got;
          TestDevice::Get()->ToHost(&got, p, sizeof(got));
          EXPECT_EQ(Settled(got).limbs, Settled(expected).limbs)
              << size << " " << scale;
          EXPECT_EQ(got.invalid, expected.invalid);
          EXPECT_EQ(got.invalid_label, expected.invalid_label);
        });
      }
    }
  }
}

TEST_P(SmallExactOperators, AddSquaresCountsTilesThatAreNotFinite) {
  for (double odd : {std::numeric_limits<double>::quiet_NaN(),
                     -std::numeric_limits<double>::infinity()}) {
    GuardedBuffer x = Normal(DType::kFloat32, 300, 0);
    x.Set(70, odd);
    x.Set(299, odd);
    ExactSum expected;
    ASSERT_TRUE(
        AddSquares(host_, 300, DType::kFloat32, x.data(), &expected).ok());
    ASSERT_EQ(expected.invalid, 2);
    const ExactSum zero;
    OnDevice on;
    ExactSum* p = static_cast<ExactSum*>(on.CopyBytes(&zero, sizeof(zero)));
    ASSERT_TRUE(
        cuda::AddSquares(on.context(), 300, DType::kFloat32, on.In(x), p).ok());
    ASSERT_TRUE(on.Finish().ok());
    ExactSum got;
    TestDevice::Get()->ToHost(&got, p, sizeof(got));
    EXPECT_EQ(Settled(got).limbs, Settled(expected).limbs);
    EXPECT_EQ(got.invalid, 2);
  }
}

TEST_P(SmallExactOperators, AddSquaresNamesTheGreatestLabelOfInvalidAddends) {
  // Two blocks, one of which is all finite.
  const GuardedBuffer good = Normal(DType::kFloat16, 40000, 1);
  GuardedBuffer bad = Like(good, 1);
  bad.Set(39999, std::numeric_limits<double>::infinity());
  InEveryOrder([&] {
    const ExactSum zero;
    OnDevice on;
    ExactSum* p = static_cast<ExactSum*>(on.CopyBytes(&zero, sizeof(zero)));
    const auto label_after = [&](const GuardedBuffer& x, int64_t label) {
      EXPECT_TRUE(cuda::AddSquares(on.context(), x.size(), x.dtype(), on.In(x),
                                   p, label)
                      .ok());
      EXPECT_TRUE(on.Finish().ok());
      ExactSum got;
      TestDevice::Get()->ToHost(&got, p, sizeof(got));
      return got.invalid_label;
    };
    EXPECT_EQ(label_after(good, 9), 0);
    EXPECT_EQ(label_after(bad, 5), 5);
    EXPECT_EQ(label_after(bad, 2), 5);
    EXPECT_EQ(label_after(good, 7), 5);
    EXPECT_EQ(label_after(bad, 6), 6);
  });
}

}  // namespace
}  // namespace castor::kernels
