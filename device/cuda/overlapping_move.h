// Moves within device memory whose source and destination overlap.
#ifndef CASTOR_DEVICE_CUDA_OVERLAPPING_MOVE_H_
#define CASTOR_DEVICE_CUDA_OVERLAPPING_MOVE_H_

#include <cstdint>

namespace castor::cuda {

// Loads the kernels' code on the calling thread's GPU. Returns a cudaError_t.
int LoadMoveOverlapping();

// Queues a move of `bytes` on `stream` (cudaStream_t), like memmove. The
// runtime's copies are undefined if the ranges overlap, so one block of threads
// moves the bytes piece by piece. That is slow (about 1 % of the memory's
// speed), and meant for distances that are too short for copies of that length.
// Returns the launch's cudaError_t.
int MoveOverlapping(void* dst, const void* src, int64_t bytes, void* stream);

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_OVERLAPPING_MOVE_H_
