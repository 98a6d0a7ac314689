// Cuts the work of elementwise programs into blocks and threads.
//
// A thread has kElementsPerThread elements of its block: two runs of kRun
// adjacent elements, so that it moves 8 or 16 bytes at a time and has both runs
// in flight at once. If operands do not begin at a multiple of a run, and in a
// range's last block, it takes single elements instead. Results do not depend
// on it.
#ifndef CASTOR_KERNELS_CUDA_ELEMENTS_H_
#define CASTOR_KERNELS_CUDA_ELEMENTS_H_

#include <cstdint>

#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

inline constexpr int kElementThreads = 256;
inline constexpr int kElementsPerThread = 8;
inline constexpr int64_t kElementsPerBlock =
    int64_t{kElementThreads} * kElementsPerThread;
inline constexpr int kRun = 4;
inline constexpr int kRuns = kElementsPerThread / kRun;

// Returns the number of blocks of an elementwise program.
CASTOR_HD int64_t ElementBlocks(int64_t size) {
  return (size + kElementsPerBlock - 1) / kElementsPerBlock;
}

// Returns true if runs of an array that begins at p can be moved whole.
template <class T>
CASTOR_HD bool HasRuns(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % (kRun * sizeof(T)) == 0;
}

template <int kCount>
struct Values {
  float at[kCount];
};

// to[0 .. kRun) from p, at a multiple of a run.
template <class T>
CASTOR_HD void LoadRun(const T* p, float* to) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == sizeof(float)) {
    const float4 run = *reinterpret_cast<const float4*>(p);
    to[0] = run.x;
    to[1] = run.y;
    to[2] = run.z;
    to[3] = run.w;
  } else {
    const uint2 run = *reinterpret_cast<const uint2*>(p);
    Unpack<T>(run.x, to);
    Unpack<T>(run.y, to + 2);
  }
#else
  MustBeAligned(p, kRun * sizeof(T));
  for (int i = 0; i < kRun; ++i) to[i] = Load(p + i);
#endif
}
template <class T>
CASTOR_HD void StoreRun(const float* from, T* p) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == sizeof(float)) {
    *reinterpret_cast<float4*>(p) =
        make_float4(from[0], from[1], from[2], from[3]);
  } else {
    *reinterpret_cast<uint2*>(p) =
        make_uint2(Pack<T>(from[0], from[1]), Pack<T>(from[2], from[3]));
  }
#else
  MustBeAligned(p, kRun * sizeof(T));
  for (int i = 0; i < kRun; ++i) Store(from[i], p + i);
#endif
}

// A thread's runs, half a block apart.
struct RunsPlace {
  static constexpr int kCount = kElementsPerThread;
  int64_t first;

  // Returns the element with index i in Values.
  CASTOR_HD int64_t Element(int i) const {
    return first + i / kRun * (kElementsPerBlock / kRuns) + i % kRun;
  }
  template <class T>
  CASTOR_HD Values<kCount> LoadFrom(const T* p) const {
    Values<kCount> values;
    CASTOR_UNROLL
    for (int i = 0; i < kCount; i += kRun) {
      LoadRun(p + Element(i), values.at + i);
    }
    return values;
  }
  template <class T>
  CASTOR_HD void StoreTo(T* p, const Values<kCount>& values) const {
    CASTOR_UNROLL
    for (int i = 0; i < kCount; i += kRun) {
      StoreRun(values.at + i, p + Element(i));
    }
  }
};

struct SinglePlace {
  static constexpr int kCount = 1;
  int64_t first;

  CASTOR_HD int64_t Element(int) const { return first; }
  template <class T>
  CASTOR_HD Values<1> LoadFrom(const T* p) const {
    return {{Load(p + first)}};
  }
  template <class T>
  CASTOR_HD void StoreTo(T* p, const Values<1>& values) const {
    Store(values.at[0], p + first);
  }
};

// Calls f(e) for thread t's part of a block's elements first, first + 1, ...
// below `end`. Neighbouring threads take neighbours.
template <class F>
CASTOR_HD void ForThreadsElements(int t, int64_t first, int64_t end,
                                  const F& f) {
  for (int j = 0; j < kElementsPerThread; ++j) {
    const int64_t e = first + j * kElementThreads + t;
    if (e < end) f(e);
  }
}

// Calls f(place) for the block's elements first, first + 1, ... below `end`,
// many or one at a time. `runs` is true if all operands have runs from `first`
// on. There is no barrier after it.
template <class Block, class F>
CASTOR_HD void ForEachPlace(Block& block, int64_t first, int64_t end, bool runs,
                            const F& f) {
  block.EachUnsynced([&](int t) {
    if (runs && first + kElementsPerBlock <= end) {
      f(RunsPlace{first + t * kRun});
    } else {
      ForThreadsElements(t, first, end, [&](int64_t e) { f(SinglePlace{e}); });
    }
  });
}

// Does the same for a program whose elements are 0 to size.
template <class Block, class F>
CASTOR_HD void ForEachPlace(Block& block, int64_t size, bool runs, const F& f) {
  ForEachPlace(block, block.index() * kElementsPerBlock, size, runs, f);
}

// Calls f(e) for the elements of such a program, one at a time.
template <class Block, class F>
CASTOR_HD void ForEachElement(Block& block, int64_t size, const F& f) {
  block.EachUnsynced([&](int t) {
    ForThreadsElements(t, block.index() * kElementsPerBlock, size, f);
  });
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_ELEMENTS_H_
