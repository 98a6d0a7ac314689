// Attention's backward pass, whose blocks add to dq in turns (turns.h), for
// random shapes: near the host's, and the same bits whichever blocks run at
// once and however many.
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/trial.h"
#include "kernels/cuda/emulated_block.h"
#include "kernels/cuda/emulated_schedule.h"
#include "kernels/cuda/test_device.h"
#include "kernels/run.h"

namespace castor::kernels {
namespace {

using cuda::EmulatedOrder;
using cuda::OnDevice;

// Runs the backward pass on the device from the results of the host's forward
// pass.
absl::Status BackwardOnDevice(AttentionTrial& trial) {
  OnDevice on;
  const int64_t bytes =
      AttentionBackwardArgs{.shape = trial.shape}.GpuWorkspaceBytes();
  const GuardedBuffer workspace = GuardedBuffer::Workspace(bytes);
  std::vector<void*> x, dx;
  for (GuardedBuffer& buffer : trial.x.buffers()) x.push_back(on.Out(buffer));
  for (GuardedBuffer& buffer : trial.dx.buffers()) dx.push_back(on.Out(buffer));
  absl::Status status = kernels::Run(
      on.context(), AttentionBackwardArgs{
                        .shape = trial.shape,
                        .q = trial.x.In(x, 0),
                        .k = trial.x.In(x, 1),
                        .v = trial.x.In(x, 2),
                        .out = on.Out(trial.out),
                        .lse = on.OutFloats(trial.lse),
                        .dout = on.In(trial.dout),
                        .dq = trial.dx.In(dx, 0),
                        .dk = trial.dx.In(dx, 1),
                        .dv = trial.dx.In(dx, 2),
                        .workspace = on.CopyBytes(workspace.data(), bytes)});
  status.Update(on.Finish());
  return status;
}

AttentionShape RandomShape(std::mt19937_64& random) {
  const auto below = [&](uint64_t end) {
    return static_cast<int64_t>(random() % end);
  };
  AttentionShape shape;
  shape.batch = 1 + below(2);
  shape.positions = 1 + below(260);
  shape.keys = shape.positions + (below(2) == 0 ? 0 : below(200));
  shape.kv_heads = 1 + below(2);
  shape.heads = shape.kv_heads * (1 + below(2));
  shape.head_size = below(8) == 0 ? 129 + below(128) : 1 + below(128);
  shape.dtype = kAllTypes[below(std::size(kAllTypes))];
  switch (below(4)) {
    case 0:
      shape.mask = AttentionMask::All();
      shape.keys = 1 + below(300);
      break;
    case 1:
      shape.mask = AttentionMask::Causal(1 + below(200));
      break;
    case 2:
      shape.mask = {.before = below(150), .after = below(150)};
      break;
    default:
      break;
  }
  if (below(3) == 0) {
    shape.dropout = 0.2f;
    shape.key = {17, random()};
  }
  return shape;
}

TEST(AttentionTurns, DoNotShowInTheBits) {
  ThreadPool pool(2);
  const ExecContext host{&pool};
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    std::mt19937_64 random(seed);
    const AttentionShape shape = RandomShape(random);
    SCOPED_TRACE(testing::Message()
                 << "seed " << seed << ": " << DTypeName(shape.dtype) << ", "
                 << shape.positions << " of " << shape.keys << ", heads of "
                 << shape.head_size);
    const AttentionTrial::Options options = {.seed = seed};
    AttentionTrial expected(shape, options);
    ASSERT_TRUE(expected.Both(host).ok());
    AttentionTrial alone(shape, options);
    ASSERT_TRUE(alone.Forward(host).ok());
    ASSERT_TRUE(BackwardOnDevice(alone).ok());
    ASSERT_TRUE(alone.GuardsIntact());
    // As attention_gpu_test.cc compares.
    const double tolerance =
        2 *
        (shape.dtype == DType::kFloat32 ? 0x1p-17
                                        : 4 * UnitRoundoff(shape.dtype)) /
        (1 - shape.dropout);
    for (int part = 0; part < 3; ++part) {
      const std::vector<double> got = alone.dx.Values(part);
      const std::vector<double> wanted = expected.dx.Values(part);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_LE(std::abs(got[i] - wanted[i]),
                  tolerance * (1 + std::abs(wanted[i])))
            << part << " at " << i;
      }
    }
    for (int at_once : {1, 2, 3, 8}) {
      cuda::CurrentEmulatedRoom() = {.blocks = at_once, .seed = random()};
      cuda::CurrentEmulatedOrder() = static_cast<EmulatedOrder>(random() % 3);
      AttentionTrial together(shape, options);
      ASSERT_TRUE(together.Forward(host).ok());
      ASSERT_TRUE(BackwardOnDevice(together).ok());
      EXPECT_TRUE(together.dx.SameBits(alone.dx)) << at_once << " at once";
    }
    cuda::CurrentEmulatedRoom() = {};
    cuda::CurrentEmulatedOrder() = EmulatedOrder::kForward;
  }
}

}  // namespace
}  // namespace castor::kernels
