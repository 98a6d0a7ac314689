
#include "kernels/matmul/matmul.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {
namespace {

struct Case {
  int64_t m, n, k;
  DType dtype = DType::kFloat32;
  bool transpose_a = false, transpose_b = false;
  bool bias = false, accumulate = false;
  int64_t padding = 0;  // of each row of a, b and c, in elements
  int64_t shift = 0;    // of each matrix from a 64-byte boundary
};

std::ostream& operator<<(std::ostream& os, const Case& c) {
  return os << "[" << c.m << ", " << c.k << "] x [" << c.k << ", " << c.n
            << "] " << DTypeName(c.dtype) << (c.transpose_a ? " T" : " N")
            << (c.transpose_b ? "T" : "N") << (c.bias ? " bias" : "")
            << (c.accumulate ? " accumulate" : "") << " padding " << c.padding
            << " shift " << c.shift;
}

// A product's memory. The values depend on the seed and the shape alone.
struct Product {
  Product(const Case& c, uint64_t seed)
      : of(c),
        lda((c.transpose_a ? c.m : c.k) + c.padding),
        ldb((c.transpose_b ? c.k : c.n) + 2 * c.padding),
        ldc(c.n + c.padding),
        a(c.dtype, (c.transpose_a ? c.k : c.m) * lda, c.shift),
        b(c.dtype, (c.transpose_b ? c.n : c.k) * ldb, c.shift),
        c(c.dtype, c.m * ldc, c.shift),
        bias(c.dtype, c.n, c.shift) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < of.m; ++i) {
      for (int64_t k = 0; k < of.k; ++k) a.Set(AtA(i, k), normal(random));
    }
    for (int64_t k = 0; k < of.k; ++k) {
      for (int64_t j = 0; j < of.n; ++j) b.Set(AtB(k, j), normal(random));
    }
    for (int64_t j = 0; j < of.n; ++j) bias.Set(j, normal(random));
    // Without accumulate c holds NaNs, which must not be read.
    for (int64_t i = 0; of.accumulate && i < of.m; ++i) {
      for (int64_t j = 0; j < of.n; ++j) {
        this->c.Set(i * ldc + j, normal(random));
      }
    }
  }

  int64_t AtA(int64_t i, int64_t k) const {
    return of.transpose_a ? k * lda + i : i * lda + k;
  }
  int64_t AtB(int64_t k, int64_t j) const {
    return of.transpose_b ? j * ldb + k : k * ldb + j;
  }

  absl::Status Run(int threads) {
    ThreadPool pool(threads);
    MatmulArgs args;
    args.m = of.m;
    args.n = of.n;
    args.k = of.k;
    args.a = a.data();
    args.lda = lda;
    args.transpose_a = of.transpose_a;
    args.b = b.data();
    args.ldb = ldb;
    args.transpose_b = of.transpose_b;
    args.c = c.data();
    args.ldc = ldc;
    args.bias = of.bias ? bias.data() : nullptr;
    args.accumulate = of.accumulate;
    args.dtype = of.dtype;
    GuardedBuffer workspace =
        GuardedBuffer::Workspace(args.CpuWorkspaceBytes());
    args.workspace = workspace.data();
    const absl::Status status = kernels::Run(ExecContext{&pool}, args);
    EXPECT_TRUE(workspace.GuardsIntact() && a.GuardsIntact() &&
                b.GuardsIntact() && c.GuardsIntact() && bias.GuardsIntact());
    return status;
  }

  Case of;
  int64_t lda, ldb, ldc;
  GuardedBuffer a, b, c, bias;
};

void ExpectOracle(const Case& test) {
  SCOPED_TRACE(testing::Message() << test);
  Product product(test, 1);
  const std::vector<double> before = product.c.Values();
  ASSERT_TRUE(product.Run(2).ok());
  for (int64_t i = 0; i < test.m; ++i) {
    for (int64_t j = 0; j < test.n; ++j) {
      double sum = 0, magnitude = 0;
      const auto add = [&](double term) {
        sum += term;
        magnitude += std::abs(term);
      };
      for (int64_t k = 0; k < test.k; ++k) {
        add(product.a[product.AtA(i, k)] * product.b[product.AtB(k, j)]);
      }
      if (test.bias) add(product.bias[j]);
      if (test.accumulate) add(before[i * product.ldc + j]);
      // Higham, "Accuracy and stability", (3.5): k + 2 terms summed in fp32 in
      // any order are off by at most (k + 2) u times the sum of their
      // magnitudes; then one rounding to the type.
      const double tolerance =
          (test.k + 2) * 0x1p-24 * magnitude +
          (test.dtype == DType::kFloat32 ? 0 : RoundingError(test.dtype, sum));
      ASSERT_NEAR(product.c[i * product.ldc + j], sum, tolerance)
          << "at " << i << ", " << j;
    }
    for (int64_t j = test.n; j < product.ldc; ++j) {
      ASSERT_TRUE(std::isnan(product.c[i * product.ldc + j]))
          << "wrote between the rows";
    }
  }
}

TEST(Matmul, AgreesWithDoubleForEveryOptionAtSmallSizes) {
  for (DType dtype : kAllTypes) {
    for (int options = 0; options < 16; ++options) {
      for (const auto& [m, n, k] :
           std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                               {1, 7, 5},
                                               {5, 1, 3},
                                               {3, 5, 1},
                                               {16, 16, 16},
                                               {17, 33, 65},
                                               {37, 19, 64}}) {
        for (int64_t padding : {0, 3}) {
          ExpectOracle({m, n, k, dtype, (options & 1) != 0, (options & 2) != 0,
                        (options & 4) != 0, (options & 8) != 0, padding,
                        padding == 0 ? 0 : options % 5});
        }
      }
    }
  }
}

TEST(Matmul, AgreesWithDoubleAcrossTilesAndPanels) {
  for (DType dtype : kAllTypes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      const bool a = (transposes & 1) != 0, b = (transposes & 2) != 0;
      ExpectOracle({257, 130, 61, dtype, a, b, true, false, 1, 1});
      ExpectOracle({31, 401, 300, dtype, a, b, false, true, 5, 3});
      ExpectOracle({130, 97, 513, dtype, a, b, true, true, 0, 7});
    }
  }
}

TEST(Matmul, AgreesWithDoubleOnRandomShapes) {
  constexpr uint64_t kSeed = 20240607;
  std::mt19937_64 random(kSeed);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " trial " << trial);
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
    };
    ExpectOracle({1 + below(90), 1 + below(90), 1 + below(90),
                  kAllTypes[below(3)], below(2) != 0, below(2) != 0,
                  below(2) != 0, below(2) != 0, below(9), below(17)});
  }
}

TEST(Matmul, BitsDependNeitherOnThreadsNorOnAlignment) {
  for (DType dtype : kAllTypes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      // fp16 is only converted in another way than bf16: half of its cases are
      // tried.
      if (dtype == DType::kFloat16 && transposes % 2 != 0) continue;
      Case test{
          300,  500, 333, dtype, (transposes & 1) != 0, (transposes & 2) != 0,
          true, true};
      SCOPED_TRACE(testing::Message() << test);
      Product reference(test, 2);
      ASSERT_TRUE(reference.Run(1).ok());
      for (int threads : {2, 3, 7}) {
        for (int64_t shift : {0, 1, 5, 8}) {
          test.shift = shift;
          Product other(test, 2);
          ASSERT_TRUE(other.Run(threads).ok());
          EXPECT_TRUE(other.c.SameBits(reference.c))
              << threads << " threads, shift " << shift;
        }
      }
    }
  }
}

// Sums of small integers are exact in fp32, in whatever order they are formed.
TEST(Matmul, RoundsFloatResultToNearestEvenForSixteenBits) {
  std::mt19937_64 random(3);
  const auto fill = [&](GuardedBuffer& buffer) {
    for (int64_t i = 0; i < buffer.size(); ++i) {
      buffer.Set(i, static_cast<double>(random() % 33) - 16);
    }
  };
  for (int options = 0; options < 32; ++options) {
    const DType dtype =
        (options & 16) != 0 ? DType::kFloat16 : DType::kBFloat16;
    Case test{70,
              450,
              255,
              dtype,
              (options & 1) != 0,
              (options & 2) != 0,
              (options & 4) != 0,
              (options & 8) != 0};
    SCOPED_TRACE(testing::Message() << test);
    Product half(test, 3);
    for (GuardedBuffer* buffer : {&half.a, &half.b, &half.bias}) fill(*buffer);
    if (test.accumulate) fill(half.c);
    test.dtype = DType::kFloat32;
    Product whole(test, 3);
    whole.a.CopyFrom(half.a);
    whole.b.CopyFrom(half.b);
    whole.c.CopyFrom(half.c);
    whole.bias.CopyFrom(half.bias);
    ASSERT_TRUE(half.Run(2).ok());
    ASSERT_TRUE(whole.Run(2).ok());
    GuardedBuffer rounded(dtype, whole.c.size());
    rounded.CopyFrom(whole.c);
    EXPECT_TRUE(half.c.SameBits(rounded));
  }
}

TEST(Matmul, RoundsTiesToEven) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    // 1 + u lies between 1 and 1 + 2u; 1 + 3u between odd and even.
    const double u = UnitRoundoff(dtype);
    Product product({1, 2, 2, dtype}, 4);
    product.a.Set(0, 1);
    product.a.Set(1, u);
    product.b.Set(0, 1);
    product.b.Set(1, 1);
    product.b.Set(2, 1);
    product.b.Set(3, 3);
    ASSERT_TRUE(product.Run(1).ok());
    EXPECT_EQ(product.c[0], 1);
    EXPECT_EQ(product.c[1], 1 + 4 * u);
  }
}

TEST(Matmul, OverflowsToInfinityOnlyAtTheResult) {
  // 65536 - 40 rounds to fp16's largest number, 65504; 65536 - 8 lies beyond
  // 65520. Sums on the way may be larger, since they are formed in fp32.
  Product product({1, 2, 3, DType::kFloat16}, 4);
  const double a[] = {256, 256, 1}, b[] = {512, 512, -256, -256, -40, -8};
  for (int i = 0; i < 3; ++i) product.a.Set(i, a[i]);
  for (int i = 0; i < 6; ++i) product.b.Set(i, b[i]);
  ASSERT_TRUE(product.Run(1).ok());
  EXPECT_EQ(product.c[0], kLargestFloat16);
  EXPECT_TRUE(std::isinf(product.c[1]));
}

TEST(Matmul, KeepsNaNs) {
  for (DType dtype : kAllTypes) {
    Product product({3, 40, 5, dtype}, 5);
    product.a.Set(product.AtA(1, 2), std::nan(""));
    ASSERT_TRUE(product.Run(1).ok());
    for (int64_t j = 0; j < 40; ++j) {
      EXPECT_FALSE(std::isnan(product.c[j]));
      EXPECT_TRUE(std::isnan(product.c[product.ldc + j]));
    }
  }
}

TEST(Matmul, OfDepthZeroIsBiasPlusWhatWasThere) {
  for (DType dtype : kAllTypes) {
    for (bool accumulate : {false, true}) {
      ExpectOracle({3, 20, 0, dtype, false, false, true, accumulate});
      ExpectOracle({3, 20, 0, dtype, true, true, false, accumulate});
    }
  }
}

TEST(Matmul, OfNothingDoesNothing) {
  EXPECT_TRUE(Product({0, 5, 5}, 6).Run(2).ok());
  EXPECT_TRUE(Product({5, 0, 5}, 6).Run(2).ok());
}

TEST(Matmul, RefusesRowsLongerThanTheirDistance) {
  for (int which = 0; which < 3; ++which) {
    Product product({4, 5, 6}, 7);
    (which == 0 ? product.lda : which == 1 ? product.ldb : product.ldc) -= 1;
    EXPECT_EQ(product.Run(1).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace castor::kernels
