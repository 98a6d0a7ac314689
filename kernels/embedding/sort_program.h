// Sorts positions by their token, and those of one token by position: each
// block sorts some of them in shared memory (Batcher, "Sorting networks and
// their applications", 1968, bitonic), then sorted runs are merged in pairs.
// All keys differ, so that the result does not depend on the algorithm.
//
// Cost, for N positions: 1 + log2(N / 1024) launches, each of which reads and
// writes 8 N bytes; a merge searches log2(N) places more for each key, most of
// them in a cache.
#ifndef CASTOR_KERNELS_EMBEDDING_SORT_PROGRAM_H_
#define CASTOR_KERNELS_EMBEDDING_SORT_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/fault.h"

namespace castor::kernels::cuda {

// Returns a position's key: its token in the upper bits, its number in the
// lower.
CASTOR_HD uint64_t TokenKey(uint32_t token, int64_t position) {
  return uint64_t{token} << 32 | static_cast<uint64_t>(position);
}
CASTOR_HD uint32_t TokenOf(uint64_t key) {
  return static_cast<uint32_t>(key >> 32);
}
CASTOR_HD int64_t PositionOf(uint64_t key) {
  return static_cast<int64_t>(key & 0xffffffffu);
}
// Greater than all keys; its token is in no vocabulary.
inline constexpr uint64_t kNoToken = ~uint64_t{0};

// keys = the keys of all positions, in sorted runs of kSorted. Positions with a
// bad index get kNoToken, and are reported.
struct SortTokensProgram {
  static constexpr int kThreads = 256;
  static constexpr int kSorted = 1024;
  struct Shared {
    uint64_t keys[kSorted];
  };

  int64_t rows, vocabulary;
  const int32_t* indices;  // [N]
  uint64_t* keys;          // [N]
  Fault fault;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t begin = block.index() * kSorted;
    const int count = static_cast<int>(Min<int64_t>(kSorted, rows - begin));
    int width = 1;
    while (width < count) width *= 2;
    block.Each([&](int t) {
      for (int i = t; i < width; i += kThreads) {
        shared.keys[i] = i < count ? KeyOf(begin + i) : kNoToken;
      }
    });
    for (int size = 2; size <= width; size *= 2) {
      for (int apart = size / 2; apart > 0; apart /= 2) {
        block.Each([&](int t) {
          for (int i = t; i < width / 2; i += kThreads) {
            const int low = (i & ~(apart - 1)) * 2 + (i & (apart - 1));
            uint64_t& a = shared.keys[low];
            uint64_t& b = shared.keys[low + apart];
            const bool rises = (low & size) == 0;
            const uint64_t x = a;
            const uint64_t y = b;
            if ((x > y) == rises) {
              a = y;
              b = x;
            }
          }
        });
      }
    }
    block.EachUnsynced([&](int t) {
      for (int i = t; i < count; i += kThreads)
        keys[begin + i] = shared.keys[i];
    });
  }

 private:
  CASTOR_HD uint64_t KeyOf(int64_t position) const {
    const int32_t index = indices[position];
    if (index >= 0 && index < vocabulary) {
      return TokenKey(static_cast<uint32_t>(index), position);
    }
    fault.Report(index, position, vocabulary);
    return TokenKey(TokenOf(kNoToken), position);
  }
};

// to = from, whose sorted runs of `run` keys become runs of twice as many. A
// thread has a key, whose place in the merged run is the number of keys before
// it in its own run plus that of smaller keys in the other run.
struct MergeTokensProgram {
  static constexpr int kThreads = 256;
  using Shared = NoShared;

  int64_t rows;
  int64_t run;           // a power of two
  const uint64_t* from;  // [N]
  uint64_t* to;          // [N]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    block.EachUnsynced([&](int t) {
      const int64_t place = block.index() * kThreads + t;
      if (place >= rows) return;
      const uint64_t key = from[place];
      const int64_t own = place & ~(run - 1);
      const int64_t other = own ^ run;
      int64_t less = 0;
      int64_t end = Max<int64_t>(0, Min(run, rows - other));
      while (less < end) {
        const int64_t middle = (less + end) / 2;
        if (from[other + middle] < key) {
          less = middle + 1;
        } else {
          end = middle;
        }
      }
      to[Min(own, other) + (place - own) + less] = key;
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_EMBEDDING_SORT_PROGRAM_H_
