// Attention on the GPU against the host's, within what rounding explains, and
// the same bits in every order of threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/backward_program.h"
#include "kernels/attention/forward_program.h"
#include "kernels/attention/mma_backward_program.h"
#include "kernels/attention/mma_forward_program.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Trial {
  // Arrays begin `shift` elements behind a multiple of 64 bytes.
  explicit Trial(const AttentionShape& s, uint64_t seed, double scale = 1,
                 int64_t shift = 0)
      : shape(s),
        qkv(s.dtype, 3 * Elements(), shift),
        dout(s.dtype, Elements(), shift),
        out(s.dtype, Elements(), shift),
        lse(DType::kFloat32, s.batch * s.heads * s.positions, shift),
        dqkv(s.dtype, 3 * Elements(), shift) {
    std::mt19937_64 random(seed);
    qkv.FillNormal(random, scale);
    dout.FillNormal(random);
  }
  int64_t Elements() const {
    return shape.batch * shape.positions * shape.heads * shape.head_size;
  }

  absl::Status RunOnHost(const ExecContext& host) {
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        AttentionBackwardArgs{.shape = shape}.CpuWorkspaceBytes());
    absl::Status status =
        kernels::Run(host, AttentionForwardArgs{.shape = shape,
                                                .qkv = qkv.data(),
                                                .out = out.data(),
                                                .lse = lse.floats()});
    status.Update(kernels::Run(
        host, AttentionBackwardArgs{.shape = shape,
                                    .qkv = qkv.data(),
                                    .out = out.data(),
                                    .lse = lse.floats(),
                                    .dout = dout.data(),
                                    .dqkv = dqkv.data(),
                                    .workspace = workspace.data()}));
    return status;
  }

  absl::Status RunOnDevice() {
    OnDevice on;
    const int64_t bytes =
        AttentionBackwardArgs{.shape = shape}.GpuWorkspaceBytes();
    const GuardedBuffer workspace = GuardedBuffer::Workspace(bytes);
    const void* pqkv = on.In(qkv);
    void* pout = on.Out(out);
    float* plse = on.OutFloats(lse);
    absl::Status status = kernels::Run(
        on.context(),
        AttentionForwardArgs{
            .shape = shape, .qkv = pqkv, .out = pout, .lse = plse});
    status.Update(kernels::Run(
        on.context(), AttentionBackwardArgs{
                          .shape = shape,
                          .qkv = pqkv,
                          .out = pout,
                          .lse = plse,
                          .dout = on.In(dout),
                          .dqkv = on.Out(dqkv),
                          .workspace = on.CopyBytes(workspace.data(), bytes)}));
    status.Update(on.Finish());
    return status;
  }

  bool GuardsIntact() const {
    return out.GuardsIntact() && lse.GuardsIntact() && dqkv.GuardsIntact();
  }

  AttentionShape shape;
  GuardedBuffer qkv, dout, out, lse, dqkv;
};

void ExpectNear(const GuardedBuffer& got, const GuardedBuffer& expected,
                double tolerance, const testing::Message& what) {
  for (int64_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - expected[i]),
              tolerance * (1 + std::abs(expected[i])))
        << what << " at " << i << " of " << got.size() << ": " << got[i]
        << " against " << expected[i];
  }
}

AttentionShape ShapeOf(int64_t batch, int64_t positions, int64_t heads,
                       int64_t head_size) {
  AttentionShape shape;
  shape.batch = batch;
  shape.positions = positions;
  shape.heads = heads;
  shape.head_size = head_size;
  return shape;
}

using AttentionOnGpu = NearOperatorTest;

TEST_F(AttentionOnGpu, AgreesWithTheHost) {
  struct Case {
    int64_t batch, positions, heads, head_size;
    int64_t shift = 0;
  };
  uint64_t seed = 0;
  for (DType dtype : kAllTypes) {
    for (const Case& c :
         {Case{1, 1, 1, 1}, Case{2, 7, 3, 16}, Case{1, 63, 1, 24},
          Case{1, 64, 2, 64}, Case{1, 65, 1, 65}, Case{1, 131, 1, 80},
          Case{1, 70, 1, 128}, Case{1, 200, 1, 64}, Case{1, 130, 2, 8, 3},
          Case{1, 40, 1, 72, 8}}) {
      for (bool causal : {true, false}) {
        for (float dropout : {0.0f, 0.2f}) {
          // Half of the grid on the host, where a thread is slow.
          if (TestDevice::Get()->emulated() && causal == (dropout > 0) &&
              c.positions > 64) {
            continue;
          }
          const AttentionShape shape = {.batch = c.batch,
                                        .positions = c.positions,
                                        .heads = c.heads,
                                        .head_size = c.head_size,
                                        .dtype = dtype,
                                        .causal = causal,
                                        .dropout = dropout,
                                        .key = {17, ++seed}};
          const auto what = testing::Message()
                            << DTypeName(dtype) << " [" << c.batch << ", "
                            << c.positions << ", " << c.heads << ", "
                            << c.head_size << "] causal " << causal
                            << " dropout " << dropout << " shift " << c.shift;
          Trial expected(shape, seed), got(shape, seed, 1, c.shift);
          ASSERT_TRUE(expected.RunOnHost(host_).ok());
          const absl::Status status = got.RunOnDevice();
          ASSERT_TRUE(status.ok()) << status;
          ASSERT_TRUE(got.GuardsIntact()) << what;
          const double unit =
              dtype == DType::kFloat32 ? 0x1p-17 : 4 * UnitRoundoff(dtype);
          ExpectNear(got.lse, expected.lse, 0x1p-17, what);
          ExpectNear(got.out, expected.out, unit, what);
          ExpectNear(got.dqkv, expected.dqkv, 2 * unit, what);
        }
      }
    }
  }
}

TEST_F(AttentionOnGpu, DoesNotDependOnTheOrderOfThreads) {
  for (DType dtype : kAllTypes) {
    const AttentionShape shape = {.batch = 1,
                                  .positions = 100,
                                  .heads = 2,
                                  .head_size = 40,
                                  .dtype = dtype,
                                  .dropout = 0.1f,
                                  .key = {1, 2}};
    Trial first(shape, 9);
    ASSERT_TRUE(first.RunOnDevice().ok());
    TestDevice::Get()->InEveryOrder([&] {
      Trial again(shape, 9);
      ASSERT_TRUE(again.RunOnDevice().ok());
      EXPECT_TRUE(again.out.SameBits(first.out));
      EXPECT_TRUE(again.lse.SameBits(first.lse));
      EXPECT_TRUE(again.dqkv.SameBits(first.dqkv));
    });
  }
}

class AttentionOfTypeOnGpu : public AttentionOnGpu,
                             public testing::WithParamInterface<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, AttentionOfTypeOnGpu,
                         testing::ValuesIn(kAllTypes), [](const auto& info) {
                           return std::string(DTypeName(info.param));
                         });

TEST_P(AttentionOfTypeOnGpu, StaysFiniteAtLargeScoresAndShowsNans) {
  AttentionShape shape = ShapeOf(1, 70, 1, 16);
  shape.dtype = GetParam();
  Trial large(shape, 4, 100), expected(shape, 4, 100);
  ASSERT_TRUE(large.RunOnDevice().ok());
  ASSERT_TRUE(expected.RunOnHost(host_).ok());
  for (int64_t i = 0; i < large.dqkv.size(); ++i) {
    ASSERT_TRUE(std::isfinite(large.dqkv[i])) << i;
  }
  for (int64_t i = 0; i < large.out.size(); ++i) {
    ASSERT_NEAR(large.out[i], expected.out[i],
                0.1 + 4 * UnitRoundoff(shape.dtype) * 100)
        << i;
  }
  // The key of position 68: rows before it are as they were.
  Trial nan(shape, 4, 100);
  nan.qkv.Set(68 * 48 + 16, kNan);
  ASSERT_TRUE(nan.RunOnDevice().ok());
  EXPECT_EQ(nan.out[67 * 16], large.out[67 * 16]);
  EXPECT_TRUE(std::isnan(nan.out[68 * 16]));
  EXPECT_TRUE(std::isnan(nan.out[69 * 16 + 15]));
}

// exp(-lse) overflows here: what is behind the end of a tile must not show it.
TEST_P(AttentionOfTypeOnGpu, StaysFiniteWhereAllScoresAreLow) {
  AttentionShape shape = ShapeOf(1, 70, 1, 16);
  shape.dtype = GetParam();
  shape.causal = false;
  Trial got(shape, 5), expected(shape, 5);
  for (Trial* trial : {&got, &expected}) {
    for (int64_t row = 0; row < shape.positions; ++row) {
      for (int64_t d = 0; d < 16; ++d) {
        trial->qkv.Set(row * 48 + d, 10);
        trial->qkv.Set(row * 48 + 16 + d, d == row % 16 ? -11 : -10);
      }
    }
  }
  ASSERT_TRUE(got.RunOnDevice().ok());
  ASSERT_TRUE(expected.RunOnHost(host_).ok());
  const double unit =
      shape.dtype == DType::kFloat32 ? 0x1p-13 : 8 * UnitRoundoff(shape.dtype);
  ExpectNear(got.out, expected.out, unit, testing::Message() << "out");
  // Values are 10 times what they are in the other tests.
  ExpectNear(got.dqkv, expected.dqkv, 10 * unit, testing::Message() << "dqkv");
}

TEST_F(AttentionOnGpu, OfNothingDoesNothingAndRefusesBadShapes) {
  const ExecContext& gpu = TestDevice::Get()->context();
  for (const AttentionShape& empty :
       {ShapeOf(0, 4, 1, 8), ShapeOf(1, 0, 1, 8), ShapeOf(1, 4, 0, 8)}) {
    EXPECT_TRUE(kernels::Run(gpu, AttentionForwardArgs{.shape = empty}).ok());
    EXPECT_TRUE(kernels::Run(gpu, AttentionBackwardArgs{.shape = empty}).ok());
  }
  AttentionShape wide = ShapeOf(1, 4, 1, 129);
  EXPECT_EQ(kernels::Run(gpu, AttentionForwardArgs{.shape = wide}).code(),
            absl::StatusCode::kInvalidArgument);
  wide.head_size = 0;
  EXPECT_EQ(kernels::Run(gpu, AttentionBackwardArgs{.shape = wide}).code(),
            absl::StatusCode::kInvalidArgument);
}

// What a block may ask for on both architectures: 163 KiB on sm_80.
template <class Program>
constexpr bool kFits = sizeof(typename Program::Shared) <= 163 * 1024;
static_assert(kFits<cuda::AttentionForwardProgram<128>>);
static_assert(kFits<cuda::AttentionBackwardProgram<128, true>>);
static_assert(kFits<cuda::AttentionBackwardProgram<128, false>>);
// Two blocks that use the matrix units run on one multiprocessor if their
// shared memory is no larger.
template <class Program>
constexpr bool kTwoFit = sizeof(typename Program::Shared) <= 81 * 1024;
static_assert(kTwoFit<cuda::AttentionMmaForwardProgram<BFloat16, 64, true>>);
static_assert(kTwoFit<cuda::AttentionMmaForwardProgram<BFloat16, 128, true>>);
static_assert(
    kTwoFit<cuda::AttentionMmaBackwardProgram<BFloat16, 64, true, true>>);
static_assert(
    kTwoFit<cuda::AttentionMmaBackwardProgram<BFloat16, 128, true, true>>);
static_assert(
    kTwoFit<cuda::AttentionMmaBackwardProgram<BFloat16, 128, false, true>>);

}  // namespace
}  // namespace castor::kernels
