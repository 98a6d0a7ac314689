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
//     one Each no thread reads what another one writes, so that results do not
//     depend on the order of threads. Code between two Eaches is the same for
//     all threads.
//  2. Blocks communicate only by atomics on integers, whose results do not
//     depend on the order either, or by taking turns (below), in a fixed order.
//  3. Hence the result depends only on the arguments and the number of blocks,
//     which depends only on shapes (promise P1).
//
// Operations of whole warps (sums over lanes, products of the matrix units) are
// called for the whole block, between Eaches, with each thread's registers:
// PerThread values, or a function that names them.
//
// Turns. Blocks that add to one place of global memory do so one after the
// other, in an order that the program fixes: a counter in global memory, 0 at
// first, says whose turn it is. A block must not wait for another one that gets
// room on the GPU only after the first one's end. So the blocks of a program
// with kTakesTurns = true do not use their index, but take numbers as they
// begin (TakeNumber), and a block waits only for turns of blocks with lower
// numbers. Hence of the running blocks the one with the lowest number never
// waits, however many run at once.
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
  // A value of each thread's own.
  template <class T>
  class PerThread {
   public:
    __device__ __forceinline__ T& operator[](int) { return value_; }

   private:
    T value_;
  };

  __device__ __forceinline__ int64_t index() const { return blockIdx.x; }

  // Makes the compiler compute values that depend on the thread's number again
  // from here on. In a loop without free registers that costs less than keeping
  // them: the compiler would move them out of the loop, into local memory.
  __device__ __forceinline__ void Renew() {
    static_assert((kThreads & (kThreads - 1)) == 0);
    asm volatile("" : "+r"(thread_));
    thread_ &= kThreads - 1;  // the compiler does not know that it changes
                              // nothing
  }

  template <class F>
  __device__ __forceinline__ void Each(const F& f) {
    f(thread_);
    __syncthreads();
  }

  // Runs f like Each, but without a barrier: f(t) uses the thread's registers,
  // reads values written before the last barrier, and writes values that no
  // other thread reads before the next one.
  template <class F>
  __device__ __forceinline__ void EachUnsynced(const F& f) {
    f(thread_);
  }

  // Synchronises the lanes of a warp after an EachUnsynced in which they
  // diverged. Values that one lane wrote before, others may read after it, as
  // after a barrier.
  __device__ __forceinline__ void Rejoin() { __syncwarp(); }

  // Starts, in a thread within an Each, a copy of 16 bytes into shared memory;
  // both addresses are multiples of 16. If not `inside`, copies zeros and does
  // not read `from`. The bytes are there after WaitForCopies.
  __device__ __forceinline__ static void CopyAhead(void* to, const void* from,
                                                   bool inside) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(Shared(to)),
        "l"(from), "r"(inside ? 16 : 0)
        : "memory");
  }
  // A barrier after which all copies of all threads are done.
  __device__ __forceinline__ void WaitForCopies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
  }

  // f(t) is a float& of each lane. Four adjacent lanes all get their sum, (0 +
  // 1) + (2 + 3), or their maximum.
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

  // f(t) is the lane's MmaOperands; T is the operands' type. The rounding of
  // the 16 products of a sum is not specified, but always the same.
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

  // Gives every lane its warp's sum, or maximum: lane i with lane i + 16, these
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

  // Called by one thread. Returns the number of earlier calls with this
  // counter.
  __device__ __forceinline__ static uint32_t TakeNumber(uint32_t* counter) {
    return atomicAdd(counter, 1u);
  }
  // Called by one lane. Returns whose turn it is now; an early look, whose
  // latency is hidden, saves Await time.
  __device__ __forceinline__ static uint32_t Look(const uint32_t* turn) {
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(turn)
                 : "memory");
    return value;
  }
  // Called by one lane; `seen` is the last value that it saw. Returns when the
  // value is `mine`. Values written before the Pass that made it so may be read
  // from then on, by the other lanes after a Rejoin, by other warps after a
  // barrier.
  __device__ __forceinline__ static void Await(const uint32_t* turn,
                                               uint32_t mine, uint32_t seen) {
    while (seen != mine) {
      __nanosleep(100);
      seen = Look(turn);
    }
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
  // Called by one lane whose turn it is, after a Rejoin of the lanes that
  // wrote, or a barrier: passes the turn on.
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
  // Converts an address in shared memory to the form that asm needs.
  __device__ __forceinline__ static uint32_t Shared(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
  }

  int thread_ = static_cast<int>(threadIdx.x);
};

#endif  // __CUDACC__

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_BLOCK_H_
