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
//     does not show either, or by taking turns (below), whose order is fixed.
//  3. Hence the result depends on the arguments and the number of blocks alone,
//     which depends on shapes alone (promise P1).
//
// What a warp does together (sums over lanes, products of the matrix units) is
// called for the whole block, between Eaches, with each thread's registers:
// PerThread values, or a function that names them.
//
// Turns. Blocks that add to one place of global memory, each its own part, do
// so one after the other, in an order that the program fixes: a counter in
// global memory, 0 at first, says whose turn it is. Who waits must not wait for
// a block that has no room on the GPU before he has ended. So the blocks of a
// program that says kTakesTurns = true do not go by their index, but take
// numbers as they begin (TakeNumber), and a block waits for turns of blocks
// with lower numbers only. Hence of those that have begun and not ended, the
// one with the lowest number never waits, however many run at once.
//
// GpuBlock (below, nvcc only) is a block of CUDA threads; EmulatedBlock
// (emulated_block.h) runs threads one after the other in any order, so that the
// tests see the same index arithmetic and the same roundings.
#ifndef CASTOR_KERNELS_CUDA_BLOCK_H_
#define CASTOR_KERNELS_CUDA_BLOCK_H_

#include <cstdint>

#include "kernels/cuda/matrix_unit.h"
#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

inline constexpr int kWarp = 32;

// The Shared of a program that has no shared memory.
struct NoShared {};

#ifdef __CUDACC__

template <int kThreads>
class GpuBlock {
 public:
  // A value that each thread has for itself.
  template <class T>
  class PerThread {
   public:
    __device__ __forceinline__ T& operator[](int) { return value_; }

   private:
    T value_;
  };

  __device__ __forceinline__ int64_t index() const { return blockIdx.x; }

  // What follows from the thread's number is worked out again from here on. In
  // a loop that has no registers left it costs less than to keep it: the
  // compiler takes what does not change out of the loop, and into local memory.
  __device__ __forceinline__ void Renew() {
    static_assert((kThreads & (kThreads - 1)) == 0);
    asm volatile("" : "+r"(thread_));
    thread_ &= kThreads - 1;  // which the compiler knows no more
  }

  template <class F>
  __device__ __forceinline__ void Each(const F& f) {
    f(thread_);
    __syncthreads();
  }

  // This is Each without the barrier: f(t) touches the thread's registers,
  // reads what was written before the last barrier, and writes what nobody
  // reads before the next one.
  template <class F>
  __device__ __forceinline__ void EachUnsynced(const F& f) {
    f(thread_);
  }

  // Brings the lanes of a warp together again, after an EachUnsynced in which
  // they went different ways. What one of them wrote before, others may read
  // behind it, as behind a barrier.
  __device__ __forceinline__ void Rejoin() { __syncwarp(); }

  // A thread within an Each starts to copy 16 bytes into shared memory; both
  // places are at multiples of 16. Where it is not `inside`, zeros come instead
  // and `from` is not read. The bytes are there after WaitForCopies.
  __device__ __forceinline__ static void CopyAhead(void* to, const void* from,
                                                   bool inside) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(Shared(to)),
        "l"(from), "r"(inside ? 16 : 0)
        : "memory");
  }
  // A barrier, behind which all copies of all threads have landed.
  __device__ __forceinline__ void WaitForCopies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
  }

  // f(t) is a float& of each lane. Four lanes that follow each other all get
  // their sum, (0 + 1) + (2 + 3), or their maximum.
  template <class F>
  __device__ __forceinline__ void QuadSum(const F& f) {
    float& x = f(thread_);
    x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 1));
    x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 2));
  }
  template <class F>
  __device__ __forceinline__ void QuadMax(const F& f) {
    float& x = f(thread_);
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
  }

  // f(t) is the lane's MmaOperands; T is the operands' type. How the units
  // round the 16 products of a sum is their own matter, and always the same.
  template <class T, class F>
  __device__ __forceinline__ void Mma(const F& f) {
    const MmaOperands o = f(thread_);
    if constexpr (kDTypeOf<T> == DType::kBFloat16) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(o.c[0]), "+f"(o.c[1]), "+f"(o.c[2]), "+f"(o.c[3])
          : "r"(o.a[0]), "r"(o.a[1]), "r"(o.a[2]), "r"(o.a[3]), "r"(o.b[0]),
            "r"(o.b[1]));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(o.c[0]), "+f"(o.c[1]), "+f"(o.c[2]), "+f"(o.c[3])
          : "r"(o.a[0]), "r"(o.a[1]), "r"(o.a[2]), "r"(o.a[3]), "r"(o.b[0]),
            "r"(o.b[1]));
    }
  }
  // f(t) is the lane's MatrixLoad.
  template <bool kTranspose, class F>
  __device__ __forceinline__ void LoadMatrices(const F& f) {
    const MatrixLoad load = f(thread_);
    if constexpr (kTranspose) {
      asm volatile(
          "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, "
          "[%4];"
          : "=r"(load.to[0]), "=r"(load.to[1]), "=r"(load.to[2]),
            "=r"(load.to[3])
          : "r"(Shared(load.row)));
    } else {
      asm volatile(
          "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
          : "=r"(load.to[0]), "=r"(load.to[1]), "=r"(load.to[2]),
            "=r"(load.to[3])
          : "r"(Shared(load.row)));
    }
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

  // By one thread: how many have called this with this counter before.
  __device__ __forceinline__ static uint32_t TakeNumber(uint32_t* counter) {
    return atomicAdd(counter, 1u);
  }
  // By one lane. Whose turn it is now; an early look, which need not be waited
  // for, spares Await the time.
  __device__ __forceinline__ static uint32_t Look(const uint32_t* turn) {
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(turn)
                 : "memory");
    return value;
  }
  // By one lane; `seen` is what it saw last. Returns when it is `mine`:
  // what was written before Pass made it so may be read from then on, by the
  // other lanes behind a Rejoin, by other warps behind a barrier.
  __device__ __forceinline__ static void Await(const uint32_t* turn,
                                               uint32_t mine, uint32_t seen) {
    while (seen != mine) {
      __nanosleep(100);
      seen = Look(turn);
    }
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
  // By one lane whose turn it is, behind a Rejoin of those, or a barrier, that
  // wrote: the next one's turn comes.
  __device__ __forceinline__ static void Pass(uint32_t* turn) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(turn)
                 : "memory");
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

 private:
  // The form in which asm wants an address in shared memory.
  __device__ __forceinline__ static uint32_t Shared(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
  }

  int thread_ = static_cast<int>(threadIdx.x);
};

#endif  // __CUDACC__

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_BLOCK_H_
