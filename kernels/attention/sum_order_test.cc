// The order in which attention's backward pass in fp32 adds on a GPU: channels
// in theirs, then keys in theirs and queries in the reverse of theirs, whatever
// tiles and slices its programs have.
// Against plain loops, bit by bit, on the emulated programs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/trial.h"
#include "kernels/cuda/test_device.h"
#include "kernels/run.h"

namespace castor::kernels {
namespace {

using cuda::OnDevice;

TEST(AttentionSums, HaveTheOrderOfTheirChannelsAndRows) {
  for (int64_t size : {24, 80, 128, 200, 256}) {
    SCOPED_TRACE(size);
    AttentionShape shape;
    shape.batch = 1;
    shape.positions = 70;  // two tiles
    shape.heads = 1;
    shape.head_size = size;
    AttentionTrial trial(shape, {.layout = AttentionLayout::kSeparate});
    const int64_t rows = shape.positions;
    std::vector<float> delta(rows);  // the workspace begins with it
    const int64_t bytes =
        AttentionBackwardArgs{.shape = trial.shape}.GpuWorkspaceBytes();
    OnDevice on;
    auto* const at = static_cast<float*>(
        on.CopyBytes(std::vector<char>(bytes).data(), bytes));
    std::vector<void*> x, dx;
    for (GuardedBuffer& buffer : trial.x.buffers()) x.push_back(on.Out(buffer));
    for (GuardedBuffer& b : trial.dx.buffers()) dx.push_back(on.Out(b));
    void* const out = on.Out(trial.out);
    float* const lse = on.OutFloats(trial.lse);
    ASSERT_TRUE(
        kernels::Run(on.context(), AttentionForwardArgs{.shape = trial.shape,
                                                        .q = x[0],
                                                        .k = x[1],
                                                        .v = x[2],
                                                        .out = out,
                                                        .lse = lse})
            .ok());
    ASSERT_TRUE(kernels::Run(on.context(),
                             AttentionBackwardArgs{.shape = trial.shape,
                                                   .q = x[0],
                                                   .k = x[1],
                                                   .v = x[2],
                                                   .out = out,
                                                   .lse = lse,
                                                   .dout = on.In(trial.dout),
                                                   .dq = dx[0],
                                                   .dk = dx[1],
                                                   .dv = dx[2],
                                                   .workspace = at})
                    .ok());
    cuda::TestDevice::Get()->ToHost(delta.data(), at,
                                    rows * static_cast<int64_t>(sizeof(float)));
    ASSERT_TRUE(on.Finish().ok());

    const float scale = trial.shape.Filled().scale;
    const auto get = [&](int part, int64_t row, int64_t d) {
      return static_cast<float>(trial.x.Get(part, row, d));
    };
    const auto dout = [&](int64_t row, int64_t d) {
      return static_cast<float>(trial.dout[row * size + d]);
    };
    std::vector<float> dq(rows * size), dk(rows * size), dv(rows * size);
    for (int64_t i = rows - 1; i >= 0; --i) {
      for (int64_t j = 0; j <= i; ++j) {
        float s = 0, dp = 0;
        for (int64_t d = 0; d < size; ++d) {
          s = std::fma(get(0, i, d), get(1, j, d), s);
          dp = std::fma(dout(i, d), get(2, j, d), dp);
        }
        const float p = std::exp(s * scale - static_cast<float>(trial.lse[i]));
        const float ds = p * (dp - delta[i]) * scale;
        for (int64_t d = 0; d < size; ++d) {
          dv[j * size + d] = std::fma(p, dout(i, d), dv[j * size + d]);
          dk[j * size + d] = std::fma(ds, get(0, i, d), dk[j * size + d]);
          dq[i * size + d] = std::fma(ds, get(1, j, d), dq[i * size + d]);
        }
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t d = 0; d < size; ++d) {
        ASSERT_EQ(trial.dx.Get(0, row, d), dq[row * size + d]) << row;
        ASSERT_EQ(trial.dx.Get(1, row, d), dk[row * size + d]) << row;
        ASSERT_EQ(trial.dx.Get(2, row, d), dv[row * size + d]) << row;
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
