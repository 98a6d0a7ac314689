#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/matmul/matmul.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using MatmulOnGpu = NearOperatorTest;

struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b, bias, accumulate;
  DType dtype;
  bool cancels = false;    // the bias is the first row's negative
  int64_t zero_terms = 0;  // of each sum, the first ones
};

TEST_F(MatmulOnGpu, IsNearDouble) {
  std::vector<Product> products;
  for (DType dtype : kAllTypes) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        products.push_back({33, 40, 17, ta, tb, false, false, dtype});
        products.push_back({64, 96, 128, ta, tb, true, false, dtype});
        products.push_back({5, 7, 300, ta, tb, false, true, dtype});
        products.push_back({1, 24, 8, ta, tb, true, true, dtype});
        products.push_back({6, 10, 0, ta, tb, true, true, dtype});
        // A sum that is rounded before the bias is added shows beside one that
        // cancels it.
        products.push_back(
            {8, 24, 256, ta, tb, true, false, dtype, /*cancels=*/true});
        // Long sums may be cut into parts, of which the last one is short.
        products.push_back({16, 24, 16392, ta, tb, false, false, dtype,
                            /*cancels=*/false, /*zero_terms=*/16384});
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
    GuardedBuffer a = Normal(p.dtype, p.m * p.k);
    const auto place_in_a = [&](int64_t i, int64_t k) {
      return p.transpose_a ? k * p.m + i : i * p.k + k;
    };
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t k = 0; k < p.zero_terms; ++k) a.Set(place_in_a(i, k), 0);
    }
    const GuardedBuffer b = Normal(p.dtype, p.k * p.n);
    GuardedBuffer bias = Normal(p.dtype, p.n);
    const auto term = [&](int64_t i, int64_t j, int64_t k) {
      return a[place_in_a(i, k)] * b[p.transpose_b ? j * p.k + k : k * p.n + j];
    };
    for (int64_t j = 0; p.cancels && j < p.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k) sum += term(0, j, k);
      bias.Set(j, -sum);
    }
    const GuardedBuffer before = Normal(p.dtype, p.m * args.ldc);
    GuardedBuffer c = CopyOf(before);
    RunInEveryOrder({&c}, [&](OnDevice& on, const auto& out) {
      GuardedBuffer workspace =
          GuardedBuffer::Workspace(args.GpuWorkspaceBytes() + 256);
      args.a = on.In(a);
      args.b = on.In(b);
      args.c = out[0];
      args.bias = p.bias ? on.In(bias) : nullptr;
      args.workspace = on.CopyBytes(workspace.data(), workspace.size() * 4);
      return kernels::Run(on.context(), args);
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
          sum += term(i, j, k);
          size += std::abs(term(i, j, k));
        }
        ASSERT_LE(std::abs(c[at] - sum),
                  2 * RoundingError(p.dtype, sum) +
                      static_cast<double>(p.k + 4) * 0x1p-24 * size)
            << p.m << " x " << p.n << " x " << p.k << " at " << i << ", " << j;
      }
    }
  }
}

TEST_F(MatmulOnGpu, RefusesWhatItsBitsWouldDependOn) {
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
  EXPECT_EQ(kernels::Run(on.context(), args).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor::kernels
