// A block of a program's threads run one after the other on the host, for
// tests. See block.h.
#ifndef CASTOR_KERNELS_CUDA_EMULATED_BLOCK_H_
#define CASTOR_KERNELS_CUDA_EMULATED_BLOCK_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// The orders in which threads and blocks are run: a program whose results
// differ between them has a race.
enum class EmulatedOrder { kForward, kBackward, kInterleaved };

inline EmulatedOrder& CurrentEmulatedOrder() {
  static thread_local EmulatedOrder order = EmulatedOrder::kForward;
  return order;
}

// Where emulated work runs: at once, unless a test has put a function here that
// queues it on its own kind of stream.
using EmulatedQueue = std::function<void(void* stream, std::function<void()>)>;
inline EmulatedQueue& CurrentEmulatedQueue() {
  static EmulatedQueue queue;
  return queue;
}
inline void RunEmulated(void* stream, std::function<void()> work) {
  const EmulatedQueue& queue = CurrentEmulatedQueue();
  if (queue) {
    queue(stream, std::move(work));
  } else {
    work();
  }
}

// The i-th of `count` in the current order.
inline int64_t InEmulatedOrder(int64_t i, int64_t count) {
  switch (CurrentEmulatedOrder()) {
    case EmulatedOrder::kForward:
      return i;
    case EmulatedOrder::kBackward:
      return count - 1 - i;
    case EmulatedOrder::kInterleaved:
      break;
  }
  // Odd ones first, which sets the lanes of a warp apart.
  return i < count / 2 ? 2 * i + 1 : 2 * (i - count / 2);
}

template <int kThreads>
class EmulatedBlock {
 public:
  template <class T>
  class PerThread {
   public:
    // Garbage at first, as a register's.
    PerThread() : values_(kThreads) {
      static_assert(std::is_trivially_copyable_v<T>);
      std::memset(static_cast<void*>(values_.data()), 0xff,
                  kThreads * sizeof(T));
    }
    T& operator[](int t) { return values_[t]; }

   private:
    std::vector<T> values_;
  };

  explicit EmulatedBlock(int64_t index) : index_(index) {}

  int64_t index() const { return index_; }

  template <class F>
  void Each(const F& f) {
    for (int i = 0; i < kThreads; ++i) {
      f(static_cast<int>(InEmulatedOrder(i, kThreads)));
    }
  }

  void WarpSum(PerThread<float>& x) {
    WarpTree(x, [](float a, float b) { return a + b; });
  }
  void WarpMax(PerThread<float>& x) {
    WarpTree(x, [](float a, float b) { return std::fmax(a, b); });
  }

  static void AtomicAdd(int64_t* to, int64_t value) { *to += value; }
  static void AtomicMax(int64_t* to, int64_t value) { *to = Max(*to, value); }
  static void AtomicMin(uint64_t* to, uint64_t value) { *to = Min(*to, value); }

 private:
  template <class Op>
  void WarpTree(PerThread<float>& x, const Op& op) {
    for (int first = 0; first < kThreads; first += kWarp) {
      std::array<float, kWarp> v;
      for (int i = 0; i < kWarp; ++i) v[i] = x[first + i];
      for (int half = kWarp / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) v[i] = op(v[i], v[i + half]);
      }
      for (int i = 0; i < kWarp; ++i) x[first + i] = v[0];
    }
  }

  int64_t index_;
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_EMULATED_BLOCK_H_
