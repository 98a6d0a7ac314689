// Runs the threads of a program's block one after the other on the host, for
// tests. See block.h.
#ifndef CASTOR_KERNELS_CUDA_EMULATED_BLOCK_H_
#define CASTOR_KERNELS_CUDA_EMULATED_BLOCK_H_

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/block.h"
#include "kernels/cuda/emulated_schedule.h"

namespace castor::kernels::cuda {

// The order in which threads and blocks are run. A program whose results depend
// on it has a race.
enum class EmulatedOrder { kForward, kBackward, kInterleaved };

inline EmulatedOrder& CurrentEmulatedOrder() {
  static thread_local EmulatedOrder order = EmulatedOrder::kForward;
  return order;
}

// Runs emulated work; at once, unless a test has put a function here that
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

// Returns the i-th of `count` in the current order.
inline int64_t InEmulatedOrder(int64_t i, int64_t count) {
  switch (CurrentEmulatedOrder()) {
    case EmulatedOrder::kForward:
      return i;
    case EmulatedOrder::kBackward:
      return count - 1 - i;
    case EmulatedOrder::kInterleaved:
      break;
  }
  // Odd ones come first, which separates the lanes of a warp.
  return i < count / 2 ? 2 * i + 1 : 2 * (i - count / 2);
}

template <int kThreads>
class EmulatedBlock {
 public:
  template <class T>
  class PerThread {
   public:
    // Values are garbage at first, as in a register.
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

  template <class F>
  void EachUnsynced(const F& f) {
    Each(f);
  }

  void Rejoin() {}
  void Renew() {}

  // Copies as early as a GPU may in one order of threads, and as late as
  // possible in the others.
  void CopyAhead(void* to, const void* from, bool inside) {
    MustBeAligned(to, 16);
    if (inside) MustBeAligned(from, 16);
    copies_.push_back({to, inside ? from : nullptr});
    if (CurrentEmulatedOrder() == EmulatedOrder::kForward) Land();
  }
  void WaitForCopies() { Land(); }

  template <class F>
  void QuadSum(const F& f) {
    ForEachQuad(f, [](float a, float b) { return a + b; });
  }
  template <class F>
  void QuadMax(const F& f) {
    ForEachQuad(f, [](float a, float b) { return std::fmax(a, b); });
  }

  template <class T, class F>
  void Mma(const F& f) {
    for (int first = 0; first < kThreads; first += kWarp) {
      double a[kMmaRows][kMmaDepth], b[kMmaDepth][kMmaColumns];
      MmaOperands lanes[kWarp];
      for (int lane = 0; lane < kWarp; ++lane) {
        const MmaOperands& o = lanes[lane] = f(first + lane);
        const int g = lane / 4;
        const int j = lane % 4 * 2;
        for (int half = 0; half < 2; ++half) {
          for (int i = 0; i < 4; ++i) {
            a[g + i % 2 * 8][j + i / 2 * 8 + half] = Half<T>(o.a[i], half);
          }
          for (int i = 0; i < 2; ++i) {
            b[j + i * 8 + half][g] = Half<T>(o.b[i], half);
          }
        }
      }
      for (int row = 0; row < kMmaRows; ++row) {
        // Columns are computed together, so that the compiler vectorises them.
        double sums[kMmaColumns];
        const auto c = [&](int column) -> float& {
          return lanes[row % 8 * 4 + column / 2].c[row / 8 * 2 + column % 2];
        };
        for (int column = 0; column < kMmaColumns; ++column) {
          sums[column] = c(column);
        }
        for (int k = 0; k < kMmaDepth; ++k) {
          for (int column = 0; column < kMmaColumns; ++column) {
            sums[column] += a[row][k] * b[k][column];
          }
        }
        for (int column = 0; column < kMmaColumns; ++column) {
          c(column) = static_cast<float>(sums[column]);
        }
      }
    }
  }

  template <bool kTranspose, class F>
  void LoadMatrices(const F& f) {
    for (int first = 0; first < kThreads; first += kWarp) {
      MatrixLoad lanes[kWarp];
      for (int lane = 0; lane < kWarp; ++lane) {
        lanes[lane] = f(first + lane);
        MustBeAligned(lanes[lane].row, 16);
      }
      for (int lane = 0; lane < kWarp; ++lane) {
        const int g = lane / 4;
        const int j = lane % 4 * 2;
        for (int matrix = 0; matrix < 4; ++matrix) {
          const auto element = [&](int row, int column) -> uint32_t {
            return static_cast<const uint16_t*>(
                lanes[8 * matrix + row].row)[column];
          };
          lanes[lane].to[matrix] =
              kTranspose ? element(j, g) | element(j + 1, g) << 16
                         : element(g, j) | element(g, j + 1) << 16;
        }
      }
    }
  }

  void WarpSum(PerThread<float>& x) {
    WarpTree(x, [](float a, float b) { return a + b; });
  }
  void WarpMax(PerThread<float>& x) {
    WarpTree(x, [](float a, float b) { return std::fmax(a, b); });
  }

  // If other blocks run beside this one, they may be scheduled in each of
  // these.
  static uint32_t TakeNumber(uint32_t* counter) {
    const uint32_t number =
        std::atomic_ref(*counter).fetch_add(1, std::memory_order_relaxed);
    EmulatedSchedule::Get().Yield();
    return number;
  }
  static uint32_t Look(const uint32_t* turn) {
    return Turn(turn).load(std::memory_order_relaxed);
  }
  static void Await(const uint32_t* turn, uint32_t mine, uint32_t seen) {
    while (seen != mine) {
      EmulatedSchedule::Get().YieldWaiting();
      seen = Look(turn);
    }
    // This stands for the fence of the GPU's Await, which sanitizers do not
    // know.
    Turn(turn).load(std::memory_order_acquire);
  }
  static void Pass(uint32_t* turn) {
    Turn(turn).fetch_add(1, std::memory_order_release);
    EmulatedSchedule::Get().Yield();
  }

  static void AtomicAdd(int64_t* to, int64_t value) { *to += value; }
  static void AtomicMax(int64_t* to, int64_t value) { *to = Max(*to, value); }
  static void AtomicMin(uint64_t* to, uint64_t value) { *to = Min(*to, value); }

 private:
  static std::atomic_ref<uint32_t> Turn(const uint32_t* turn) {
    return std::atomic_ref(*const_cast<uint32_t*>(turn));
  }

  struct Copy16 {
    void* to;
    const void* from;  // null: zeros
  };

  void Land() {
    for (const Copy16& copy : copies_) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, 16);
      } else {
        std::memcpy(copy.to, copy.from, 16);
      }
    }
    copies_.clear();
  }

  template <class T>
  static float Half(uint32_t pair, int half) {
    T value;
    value.bits = static_cast<uint16_t>(pair >> (16 * half));
    return static_cast<float>(value);
  }

  template <class F, class Op>
  void ForEachQuad(const F& f, const Op& op) {
    for (int first = 0; first < kThreads; first += 4) {
      const float all =
          op(op(f(first), f(first + 1)), op(f(first + 2), f(first + 3)));
      for (int i = 0; i < 4; ++i) f(first + i) = all;
    }
  }

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
  std::vector<Copy16> copies_;
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_EMULATED_BLOCK_H_
