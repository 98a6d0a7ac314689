// Programs: kernels that a GPU runs and a test can run on the host.
//
// A program is a plain struct of arguments that says what one block of threads
// does:
//
//   struct Program {
//     static constexpr int kThreads = 256;
//     struct Shared { float sums[256]; };      // the block's shared memory
//     template <class Block>
//     CASTOR_HD void operator()(Block& block, Shared& shared) const {
//       typename Block::template PerThread<float> x;      // registers
//       block.Each([&](int t) { x[t] = ...; shared.sums[t] = x[t]; });
//       block.Each([&](int t) { ... shared.sums[...] ... });
//     }
//   };
//
// Invariants:
//  1. Each(f) runs f(t) for every thread t of the block, then a barrier. Within
//     one Each no thread reads what another one writes: the order of threads
//     must not show. What is between two Eaches is the same for all threads.
//  2. Blocks do not communicate, but by atomics on integers, in which the order
//     does not show either.
//  3. Hence the result depends on the arguments and the number of blocks alone,
//     which depends on shapes alone (promise P1).
//
// GpuBlock (below, nvcc only) is a block of CUDA threads; EmulatedBlock
// (emulated_block.h) runs threads one after the other in any order, so that the
// tests see the same index arithmetic and the same roundings.
#ifndef CASTOR_KERNELS_CUDA_BLOCK_H_
#define CASTOR_KERNELS_CUDA_BLOCK_H_

#include <cstdint>

#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

inline constexpr int kWarp = 32;

// For programs without shared memory.
struct NoShared {};

#ifdef __CUDACC__

template <int kThreads>
class GpuBlock {
 public:
  // A value of each thread.
  template <class T>
  class PerThread {
   public:
    __device__ __forceinline__ T& operator[](int) { return value_; }

   private:
    T value_;
  };

  __device__ __forceinline__ int64_t index() const { return blockIdx.x; }

  template <class F>
  __device__ __forceinline__ void Each(const F& f) {
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
  }

  // Every lane gets its warp's sum, or maximum: lane i with lane i + 16, these
  // with i + 8, ... 1. A NaN may be lost in the maximum.
  __device__ __forceinline__ void WarpSum(PerThread<float>& x) {
    float v = x[0];
    for (int half = kWarp / 2; half > 0; half /= 2) {
      v = __fadd_rn(v, __shfl_down_sync(0xffffffffu, v, half));
    }
    x[0] = __shfl_sync(0xffffffffu, v, 0);
  }
  __device__ __forceinline__ void WarpMax(PerThread<float>& x) {
    float v = x[0];
    for (int half = kWarp / 2; half > 0; half /= 2) {
      v = fmaxf(v, __shfl_down_sync(0xffffffffu, v, half));
    }
    x[0] = __shfl_sync(0xffffffffu, v, 0);
  }

  __device__ __forceinline__ static void AtomicAdd(int64_t* to, int64_t value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to),
              static_cast<unsigned long long>(value));
  }
  __device__ __forceinline__ static void AtomicMax(int64_t* to, int64_t value) {
    atomicMax(reinterpret_cast<long long*>(to), static_cast<long long>(value));
  }
  __device__ __forceinline__ static void AtomicMin(uint64_t* to,
                                                   uint64_t value) {
    atomicMin(reinterpret_cast<unsigned long long*>(to),
              static_cast<unsigned long long>(value));
  }
};

#endif  // __CUDACC__

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_BLOCK_H_
