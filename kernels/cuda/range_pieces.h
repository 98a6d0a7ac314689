// Finds a block's part of the ranges of a chunk, for an optimizer's program.
// Ranges are arguments of the kernel (4 KiB of them in all): nothing is copied
// to the device, and more ranges take more launches (launch_ranges.h).
#ifndef CASTOR_KERNELS_CUDA_RANGE_PIECES_H_
#define CASTOR_KERNELS_CUDA_RANGE_PIECES_H_

#include <cstdint>

#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

// At most kMostPieces ranges, each with its Scalars and cut into blocks of the
// program's elements from its begin.
template <class S, int kMostPieces>
struct RangePieces {
  using Scalars = S;
  static constexpr int kMost = kMostPieces;

  struct Piece {
    int64_t begin, end;     // elements
    int64_t blocks_before;  // of the pieces before this one
    Scalars scalars;
  };
  int count;
  Piece at[kMost];

  CASTOR_HD const Piece& OfBlock(int64_t block) const {
    int i = 0;
    while (i + 1 < count && at[i + 1].blocks_before <= block) ++i;
    return at[i];
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_RANGE_PIECES_H_
