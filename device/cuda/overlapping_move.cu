#include <cuda_runtime.h>

#include "device/cuda/overlapping_move.h"

namespace castor::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kPerThread = 4;

// Each round reads kThreads * kPerThread units, then writes them: whatever the
// distance is, no unit is overwritten before it was read, when rounds go away
// from the destination (up where it lies below the source, else down). The
// units that a round reads lie beyond all that earlier ones write, so that
// threads need not meet between rounds.
template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    Move(Unit* dst, const Unit* src, int64_t n) {
  constexpr int64_t kRound = int64_t{kThreads} * kPerThread;
  const bool up = dst < src;
  const int64_t rounds = (n + kRound - 1) / kRound;
  for (int64_t r = 0; r < rounds; ++r) {
    const int64_t begin = (up ? r : rounds - 1 - r) * kRound + threadIdx.x;
    Unit held[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int64_t at = begin + int64_t{i} * kThreads;
      if (at < n) held[i] = src[at];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int64_t at = begin + int64_t{i} * kThreads;
      if (at < n) dst[at] = held[i];
    }
  }
}

}  // namespace

int LoadMoveOverlapping() {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, Move<uint4>);
  if (error != cudaSuccess) return error;
  return cudaFuncGetAttributes(&attributes, Move<unsigned char>);
}

int MoveOverlapping(void* dst, const void* src, int64_t bytes, void* stream) {
  if (bytes == 0 || dst == src) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  const auto bits = reinterpret_cast<uintptr_t>(dst) |
                    reinterpret_cast<uintptr_t>(src) |
                    static_cast<uintptr_t>(bytes);
  if (bits % sizeof(uint4) == 0) {
    Move<<<1, kThreads, 0, on>>>(static_cast<uint4*>(dst),
                                 static_cast<const uint4*>(src),
                                 bytes / static_cast<int64_t>(sizeof(uint4)));
  } else {
    Move<<<1, kThreads, 0, on>>>(static_cast<unsigned char*>(dst),
                                 static_cast<const unsigned char*>(src), bytes);
  }
  return cudaGetLastError();
}

}  // namespace castor::cuda
