// Divides the GPU's workspaces of the head's loss, and chooses the width of its
// tiles.
//
// A tile of logits in fp32 is [N, W]. W, and so the order in which dx is
// summed, follows from the shape alone.
#ifndef CASTOR_KERNELS_HEAD_LOSS_GPU_SIZES_H_
#define CASTOR_KERNELS_HEAD_LOSS_GPU_SIZES_H_

#include <cstdint>

#include "kernels/head_loss/head_loss.h"

namespace castor::kernels::cuda {

// A workspace, part after part; offsets are in bytes.
struct HeadLayout {
  HeadLayout(const HeadLossShape& shape, int64_t columns);

  int64_t Take(int64_t bytes);

  int64_t rows, columns;
  int64_t ld;  // floats between rows of logits: 32-byte steps
  int64_t size = 0;
};

struct HeadForwardLayout : HeadLayout {
  explicit HeadForwardLayout(const HeadLossShape& shape);

  int64_t segments;  // of a row
  int64_t sum, max, target, logits, gemm;
};

struct HeadBackwardLayout : HeadLayout {
  explicit HeadBackwardLayout(const HeadLossShape& shape);

  int64_t logits, dx = 0, gemm;
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_HEAD_LOSS_GPU_SIZES_H_
