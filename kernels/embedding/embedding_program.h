// Table look-up and its gradient. The gradient needs neither scratch nor float
// atomics: the block of a token's first position owns that token's row, and
// adds the rows of all its positions in their order.
//
// Cost of the gradient: N^2 / 2 reads of indices, most of them from the cache,
// at the worst (N different tokens): 1 ms of an H100's L2 for N = 32,768 by
// arithmetic, not measured.
#ifndef CASTOR_KERNELS_EMBEDDING_EMBEDDING_PROGRAM_H_
#define CASTOR_KERNELS_EMBEDDING_EMBEDDING_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/fault.h"

namespace castor::kernels::cuda {

inline constexpr int kEmbeddingThreads = 256;

// One block per position.
template <class T>
struct EmbeddingForwardProgram {
  static constexpr int kThreads = kEmbeddingThreads;
  using Shared = NoShared;

  int64_t rows, channels, vocabulary;
  const int32_t* indices;  // [N]
  const T* table;          // [V, C]
  T* y;                    // [N, C]
  bool accumulate;
  Fault fault;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const int64_t n = block.index();
    const int64_t index = indices[n];
    const bool bad = index < 0 || index >= vocabulary;
    block.Each([&](int t) {
      if (bad) {
        if (t == 0) {
          fault.Report(index, n, vocabulary);
        }
        return;
      }
      for (int64_t c = t; c < channels; c += kThreads) {
        const float row = Load(table + index * channels + c);
        T* to = y + n * channels + c;
        // A copy is exact in fp32, too, but for signalling NaNs.
        Store(accumulate ? Add(Load(to), row) : row, to);
      }
    });
  }
};

// y = 0.
template <class T>
struct ClearProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t size;
  T* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    ForEachElement(block, size, [&](int64_t e) { y[e] = T(); });
  }
};

// Rows of dtable that no index names are not written: without `accumulate` they
// are cleared beforehand. One block per position and slice of the columns.
template <class T>
struct EmbeddingBackwardProgram {
  static constexpr int kThreads = kEmbeddingThreads;
  static constexpr int kBatch = 4 * kThreads;  // positions looked at together
  struct Shared {
    int32_t matches[kBatch];  // those of equal index, in order
    int counts[kThreads];     // of each thread's four positions
    int starts[kThreads + 1];
    int earlier[kThreads];
  };

  int64_t rows, channels, vocabulary, slices;
  const int32_t* indices;  // [N]
  const T* dy;             // [N, C]
  T* dtable;               // [V, C]
  bool accumulate;
  Fault fault;

  // Columns of a slice.
  static constexpr int64_t kSlice = kThreads;
  CASTOR_HD static int64_t Slices(int64_t channels) {
    return (channels + kSlice - 1) / kSlice;
  }

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t n = block.index() / slices;
    const int64_t slice = block.index() % slices;
    const int32_t index = indices[n];
    if (index < 0 || index >= vocabulary) {
      block.Each([&](int t) {
        if (t == 0 && slice == 0) {
          fault.Report(index, n, vocabulary);
        }
      });
      return;
    }
    if (NamedEarlier(block, shared, n, index)) return;

    typename Block::template PerThread<float> sum;
    block.Each([&](int t) { sum[t] = 0.0f; });
    for (int64_t begin = n; begin < rows; begin += kBatch) {
      const int count = FindMatches(block, shared, begin, index);
      block.Each([&](int t) {
        const int64_t c = slice * kSlice + t;
        if (c >= channels) return;
        for (int i = 0; i < count; ++i) {
          const int64_t position = begin + shared.matches[i];
          sum[t] = Add(sum[t], Load(dy + position * channels + c));
        }
      });
    }
    block.Each([&](int t) {
      const int64_t c = slice * kSlice + t;
      if (c >= channels) return;
      T* to = dtable + index * channels + c;
      Store(accumulate ? Add(Load(to), sum[t]) : sum[t], to);
    });
  }

 private:
  // Whether a position before n has the same index.
  template <class Block>
  CASTOR_HD bool NamedEarlier(Block& block, Shared& shared, int64_t n,
                              int32_t index) const {
    for (int64_t begin = 0; begin < n; begin += kBatch) {
      block.Each([&](int t) {
        int found = 0;
        CASTOR_UNROLL
        for (int j = 0; j < kBatch / kThreads; ++j) {
          const int64_t i = begin + j * kThreads + t;
          found |= i < n && indices[i] == index ? 1 : 0;
        }
        shared.earlier[t] = found;
      });
      block.Each([&](int t) {
        if (t >= kWarp) return;
        int found = 0;
        for (int i = t; i < kThreads; i += kWarp) found |= shared.earlier[i];
        shared.counts[t] = found;
      });
      int found = 0;
      for (int i = 0; i < kWarp; ++i) found |= shared.counts[i];
      // All have read before the next batch writes.
      block.Each([](int) {});
      if (found != 0) return true;
    }
    return false;
  }

  // Fills matches with the positions of `index` in [begin, begin + kBatch),
  // counted from begin, and returns how many there are.
  template <class Block>
  CASTOR_HD int FindMatches(Block& block, Shared& shared, int64_t begin,
                            int32_t index) const {
    constexpr int kEach = kBatch / kThreads;
    block.Each([&](int t) {
      int count = 0;
      for (int j = 0; j < kEach; ++j) {
        const int64_t i = begin + t * kEach + j;
        count += i < rows && indices[i] == index ? 1 : 0;
      }
      shared.counts[t] = count;
    });
    block.Each([&](int t) {
      if (t != 0) return;
      int sum = 0;
      for (int i = 0; i < kThreads; ++i) {
        shared.starts[i] = sum;
        sum += shared.counts[i];
      }
      shared.starts[kThreads] = sum;
    });
    block.Each([&](int t) {
      if (shared.counts[t] == 0) return;
      int at = shared.starts[t];
      for (int j = 0; j < kEach; ++j) {
        const int64_t i = begin + t * kEach + j;
        if (i < rows && indices[i] == index) {
          shared.matches[at++] = t * kEach + j;
        }
      }
    });
    return shared.starts[kThreads];
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_EMBEDDING_EMBEDDING_PROGRAM_H_
