#include "kernels/head_loss/gpu_sizes.h"

#include <algorithm>

#include "base/units.h"
#include "kernels/cuda/gemm.h"
#include "kernels/head_loss/head_loss_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

constexpr int64_t kBlock = 256;  // bytes that parts of the workspace start at

// Forward's tiles have 32 MiB, which the larger GPUs' L2 caches hold until
// their rows are summed; more would not spare anything.
constexpr int64_t kForwardTileBytes = int64_t{32} << 20;

int64_t ForwardColumns(const HeadLossShape& shape) {
  constexpr int64_t kWidest = 16384;
  const int64_t fits = kForwardTileBytes / 4 / std::max<int64_t>(1, shape.rows);
  return std::min(shape.vocabulary,
                  std::clamp(fits / kHeadSegment * kHeadSegment,
                             int64_t{kHeadSegment}, kWidest));
}

// Backward reads and writes dx in fp32 once a tile: 8 N C bytes, beside some 14
// N W that the tile itself takes. So tiles have at least those 32 MiB and grow
// to W = 4 C, where dx is an eighth of the bytes, and the tile 16 bytes for
// each element of x. A layer as wide as x takes some 44 for its own backward
// pass where activations are computed again, so that the head is not what sets
// such a run's smallest budget; where all layers' are kept, it adds half a
// layer's. At most 256 MiB, unless W would be less than 2048, with which a
// vocabulary of 50,000 is 25 tiles.
int64_t BackwardColumns(const HeadLossShape& shape) {
  constexpr int64_t kMostBytes = int64_t{256} << 20;
  constexpr int64_t kEnough = 2048;
  constexpr int64_t kNarrowest = 256;
  constexpr int64_t kWidest = 16384;
  constexpr int64_t kRound = HeadGradientProgram<float>::kRound;
  const int64_t column_bytes = 4 * std::max<int64_t>(1, shape.rows);
  const int64_t wanted =
      std::max(kForwardTileBytes / column_bytes,
               std::min(4 * shape.channels,
                        std::max(kEnough, kMostBytes / column_bytes)));
  const int64_t step = wanted >= kRound ? kRound : 128;
  return std::min(shape.vocabulary,
                  std::clamp(wanted / step * step, kNarrowest, kWidest));
}

}  // namespace

HeadLayout::HeadLayout(const HeadLossShape& shape, int64_t columns)
    : rows(std::max<int64_t>(0, shape.rows)),
      columns(columns),
      ld(RoundUp(columns, 8)) {}

int64_t HeadLayout::Take(int64_t bytes) {
  const int64_t at = size;
  size += RoundUp(bytes, kBlock);
  return at;
}

HeadForwardLayout::HeadForwardLayout(const HeadLossShape& shape)
    : HeadLayout(shape, ForwardColumns(shape)),
      segments(CeilDiv(shape.vocabulary, kHeadSegment)) {
  sum = Take(segments * rows * 4);
  max = Take(segments * rows * 4);
  target = Take(rows * 4);
  logits = Take(rows * ld * 4);
  gemm = Take(GemmWorkspaceBytes(rows, columns));
}

HeadBackwardLayout::HeadBackwardLayout(const HeadLossShape& shape)
    : HeadLayout(shape, BackwardColumns(shape)) {
  logits = Take(rows * ld * 4);
  if (shape.dtype != DType::kFloat32) dx = Take(rows * shape.channels * 4);
  gemm = Take(std::max({GemmWorkspaceBytes(rows, columns),
                        GemmWorkspaceBytes(rows, shape.channels),
                        GemmWorkspaceBytes(columns, shape.channels)}));
}

}  // namespace cuda

int64_t HeadLossForwardArgs::GpuWorkspaceBytes() const {
  return cuda::HeadForwardLayout(shape).size;
}

int64_t HeadLossBackwardArgs::GpuWorkspaceBytes() const {
  return cuda::HeadBackwardLayout(shape).size;
}

}  // namespace castor::kernels
