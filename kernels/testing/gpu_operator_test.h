// The common parts of the tests of operators on a GPU. Each suite is run twice:
// with the programs emulated on the host, and on a GPU.
//
// There are two kinds of operators. Those with the host's bits are compared
// with the host's kernels bit by bit (ExactOperatorTest); the host's own tests
// compare these with an oracle. The bits of the others (products, exponentials)
// may differ: they are compared with the host's results, or with double, within
// rounding errors, and must be the same in every order of threads
// (NearOperatorTest).
#ifndef CASTOR_KERNELS_TESTING_GPU_OPERATOR_TEST_H_
#define CASTOR_KERNELS_TESTING_GPU_OPERATOR_TEST_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/cuda/test_device.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {

using cuda::OnDevice;
using cuda::TestDevice;

// Sizes on both sides of a block's elements.
inline constexpr int64_t kGpuTestSizes[] = {0,   1,    2,    3,    255, 256,
                                            257, 2047, 2048, 2049, 5000};

// The parameter is true if all operands are aligned, so that they are read in
// runs, and false if none is; a suite is instantiated with both by
//
//   INSTANTIATE_TEST_SUITE_P(Operands, NAME, testing::Bool(), AlignmentName);
class ExactOperatorTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (TestDevice::Get() == nullptr) {
      GTEST_SKIP() << "SKIPPED: there is no GPU here";
    }
  }

  // Returns an array of random numbers that begins `shift` elements after an
  // aligned address, unless all are aligned.
  GuardedBuffer Normal(DType dtype, int64_t size, int64_t shift) {
    GuardedBuffer x = Empty(dtype, size, shift);
    x.FillNormal(random_);
    return x;
  }
  GuardedBuffer Empty(DType dtype, int64_t size, int64_t shift = 0) {
    return GuardedBuffer(dtype, size, Shift(shift));
  }
  // Returns a copy of x.
  GuardedBuffer Like(const GuardedBuffer& x, int64_t shift) {
    GuardedBuffer copy = Empty(x.dtype(), x.size(), shift);
    copy.CopyFrom(x);
    return copy;
  }
  int64_t Shift(int64_t shift) const { return GetParam() ? 0 : shift; }
  static void InEveryOrder(const std::function<void()>& body) {
    TestDevice::Get()->InEveryOrder(body);
  }

  ThreadPool pool_{2};
  const ExecContext host_{&pool_};
  std::mt19937_64 random_{11};
};

inline std::string AlignmentName(const testing::TestParamInfo<bool>& info) {
  return info.param ? "aligned" : "anywhere";
}

// Expects equal bits; all NaNs are equal.
inline void ExpectSame(const GuardedBuffer& got, const GuardedBuffer& expected,
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

class NearOperatorTest : public testing::Test {
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

inline GuardedBuffer CopyOf(const GuardedBuffer& x) {
  GuardedBuffer copy(x.dtype(), x.size());
  copy.CopyFrom(x);
  return copy;
}

// Expects |got - expected| <= tolerance (floor + |expected|), and NaNs at the
// same places.
inline void ExpectNear(const GuardedBuffer& got, const GuardedBuffer& expected,
                       double tolerance, double floor,
                       const std::string& what) {
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

inline double Largest(const GuardedBuffer& x) {
  double largest = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(x[i]));
  }
  return largest;
}

// Rows and channels with which normalisations are tried. Blocks have 5, 2 or 1
// rows; the longest rows are too long for one block, and two such rows need a
// barrier that one does not.
inline std::vector<std::pair<int64_t, int64_t>> NormSizes(DType dtype) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  if (TestDevice::Get()->interpreted()) {
    sizes = {{1, 1}, {7, 33}, {9, 100}, {100, 31}, {2, 8192}, {2, 8200}};
    if (dtype == DType::kBFloat16) {
      sizes.insert(sizes.end(), {{600, 33}, {7, 768}, {7, 1600}});
    }
    return sizes;
  }
  for (int64_t rows : {1, 2, 7, 8, 9, 100, 600}) {
    for (int64_t channels : {1, 31, 32, 33, 100, 768, 1600, 4088, 8192, 8200}) {
      if (rows > 9 && channels > (rows > 100 ? 33 : 100)) continue;
      if (channels > 768 && rows != (channels < 8192 ? 7 : 2)) continue;
      sizes.push_back({rows, channels});
    }
  }
  return sizes;
}

// Runs `call` into fresh copies of `outputs` in every order; the first run's
// results stay in `outputs`, the others must equal them bit by bit.
inline void RunInEveryOrder(
    const std::vector<GuardedBuffer*>& outputs,
    const std::function<absl::Status(OnDevice&, const std::vector<void*>&)>&
        call) {
  std::vector<GuardedBuffer> before;
  for (GuardedBuffer* x : outputs) before.push_back(CopyOf(*x));
  bool first = true;
  TestDevice::Get()->InEveryOrder([&] {
    std::vector<GuardedBuffer> results;
    for (GuardedBuffer& x : before) results.push_back(CopyOf(x));
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

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_TESTING_GPU_OPERATOR_TEST_H_
