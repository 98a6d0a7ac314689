// A move within device memory whose source and destination overlap.
#ifndef CASTOR_DEVICE_CUDA_OVERLAPPING_MOVE_H_
#define CASTOR_DEVICE_CUDA_OVERLAPPING_MOVE_H_

#include <cstdint>

namespace castor::cuda {

// Has the kernels' code loaded on the calling thread's GPU. A cudaError_t.
int LoadMoveOverlapping();

// Queues a move of `bytes` on `stream` (cudaStream_t) as memmove does it. The
// runtime's copies are undefined where the ranges overlap, so one block of
// threads moves them piece by piece: slow (about 1 % of the memory's speed),
// for distances that are too short for copies of their length. Returns the
// launch's cudaError_t.
int MoveOverlapping(void* dst, const void* src, int64_t bytes, void* stream);

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_OVERLAPPING_MOVE_H_
