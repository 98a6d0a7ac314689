// Divides rows among a block's threads, for programs that normalise rows.
//
// A block has up to kNormRows rows. It copies them into shared memory, 16 bytes
// at a time, and otherwise reads from global memory only vectors that are
// common to all rows. A warp sums up a row: lane i sums elements i, i + 32,
// ..., as the host's partial sums do, which one tree joins. One thread per row
// does the fp64 arithmetic on the sums: where fp64 is slow, a warp takes as
// long for one row in all of its lanes as for 32 rows. Then all threads work on
// elements, 16 bytes each at a time.
//
// Rows that are too long for shared memory are read from global memory each
// time (NormRows<T, k, false>).
#ifndef CASTOR_KERNELS_CUDA_NORM_ROWS_H_
#define CASTOR_KERNELS_CUDA_NORM_ROWS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// The most rows that a block has.
inline constexpr int kNormRows = 8;
inline constexpr int kNormThreads = kNormRows * kWarp;
// The elements of a matrix for which a block has shared memory: 16 KiB, so that
// a multiprocessor has room for several blocks.
template <class T>
inline constexpr int kNormElements = 16384 / static_cast<int>(sizeof(T));

// 16 bytes of adjacent elements, at a multiple of 16.
template <class T>
struct NormRun {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));

  CASTOR_HD static Values<kCount> LoadFrom(const T* p) {
    Values<kCount> values;
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(T) == sizeof(float)) {
      LoadRun(p, values.at);
    } else {
      const uint4 pairs = *reinterpret_cast<const uint4*>(p);
      Unpack<T>(pairs.x, values.at);
      Unpack<T>(pairs.y, values.at + 2);
      Unpack<T>(pairs.z, values.at + 4);
      Unpack<T>(pairs.w, values.at + 6);
    }
#else
    MustBeAligned(p, 16);
    for (int i = 0; i < kCount; ++i) values.at[i] = Load(p + i);
#endif
    return values;
  }
  CASTOR_HD static void StoreTo(T* p, const Values<kCount>& values) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(T) == sizeof(float)) {
      StoreRun(values.at, p);
    } else {
      const float* v = values.at;
      *reinterpret_cast<uint4*>(p) =
          make_uint4(Pack<T>(v[0], v[1]), Pack<T>(v[2], v[3]),
                     Pack<T>(v[4], v[5]), Pack<T>(v[6], v[7]));
    }
#else
    MustBeAligned(p, 16);
    for (int i = 0; i < kCount; ++i) Store(values.at[i], p + i);
#endif
  }
};

// One element, likewise.
template <class T>
struct NormElement {
  static constexpr int kCount = 1;

  CASTOR_HD static Values<1> LoadFrom(const T* p) { return {{Load(p)}}; }
  CASTOR_HD static void StoreTo(T* p, const Values<1>& values) {
    Store(values.at[0], p);
  }
};

// Returns true if runs of an array, or of none (null), can be moved whole.
template <class T>
CASTOR_HD bool HasNormRuns(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

// The part of a program that holds the rows of kMatrices matrices. With kStaged
// they are copied to shared memory; rows have at most kNormElements<T> then.
template <class T, int kMatrices, bool kStaged>
struct NormRows {
  static constexpr int kValues = 2;
  using Index = std::conditional_t<kStaged, int, int64_t>;  // within rows

  struct Shared {
    alignas(16) T at[kMatrices][kStaged ? kNormElements<T> : 1];
    float sums[kValues][kNormRows];
    float values[kValues][kNormRows];  // computed from sums by the program
  };

  int64_t rows, channels;
  int64_t rows_of_block;
  const T* matrices[kMatrices];  // [rows, channels]

  CASTOR_HD static int64_t RowsOfBlock(int64_t channels) {
    return kStaged ? Min<int64_t>(kNormRows, kNormElements<T> / channels)
                   : kNormRows;
  }
  CASTOR_HD int64_t Blocks() const {
    return (rows + rows_of_block - 1) / rows_of_block;
  }

  template <class Block>
  CASTOR_HD int64_t First(const Block& block) const {
    return block.index() * rows_of_block;
  }
  // The number of the block's rows.
  template <class Block>
  CASTOR_HD int Count(const Block& block) const {
    return static_cast<int>(Min(rows_of_block, rows - First(block)));
  }
  // Returns the address of row r of the block.
  template <class Block>
  CASTOR_HD const T* Row(const Block& block, const Shared& shared, int k,
                         int r) const {
    if constexpr (kStaged) {
      return shared.at[k] + r * static_cast<int>(channels);
    } else {
      return matrices[k] + (First(block) + r) * channels;
    }
  }

  // Fetches the rows; called first.
  template <class Block>
  CASTOR_HD void Fetch(Block& block, Shared& shared) const {
    if constexpr (kStaged) {
      constexpr int kPerCopy = NormRun<T>::kCount;
      const int64_t first = First(block) * channels;
      const int size = Count(block) * static_cast<int>(channels);
      bool runs = channels % kPerCopy == 0;
      for (const T* matrix : matrices) runs = runs && HasNormRuns(matrix);
      block.EachUnsynced([&](int t) {
        for (int k = 0; k < kMatrices; ++k) {
          const T* const from = matrices[k] + first;
          T* const to = shared.at[k];
          if (runs) {
            for (int e = t * kPerCopy; e < size; e += kNormThreads * kPerCopy) {
              block.CopyAhead(to + e, from + e, true);
            }
          } else {
            for (int e = t; e < size; e += kNormThreads) to[e] = from[e];
          }
        }
      });
      block.WaitForCopies();
    }
  }

  // add(r, c, x, sum) adds the terms of row r's element c, which is x
  // [kMatrices], to sum [kSums]. finish(r, sum, value) computes
  // shared.values[k][r], k < kValues, from a row's sums; both may read earlier
  // values. Rows are counted within the block.
  template <int kSums, class Block, class Add, class Finish>
  CASTOR_HD void Sum(Block& block, Shared& shared, const Add& add,
                     const Finish& finish) const {
    const int count = Count(block);
    typename Block::template PerThread<float> sums[kSums];
    block.EachUnsynced([&](int t) {
      float sum[kSums];
      CASTOR_UNROLL
      for (float& s : sum) s = 0.0f;
      const int r = t / kWarp;
      if (r < count) {
        const T* row[kMatrices];
        CASTOR_UNROLL
        for (int k = 0; k < kMatrices; ++k) {
          row[k] = Row(block, shared, k, r);
        }
        const Index end = static_cast<Index>(channels);
        for (Index c = t % kWarp; c < end; c += kWarp) {
          float x[kMatrices];
          CASTOR_UNROLL
          for (int k = 0; k < kMatrices; ++k) x[k] = Load(row[k] + c);
          add(r, c, x, sum);
        }
      }
      CASTOR_UNROLL
      for (int k = 0; k < kSums; ++k) sums[k][t] = sum[k];
    });
    CASTOR_UNROLL
    for (int k = 0; k < kSums; ++k) block.WarpSum(sums[k]);
    block.Each([&](int t) {
      if (t % kWarp != 0) return;
      CASTOR_UNROLL
      for (int k = 0; k < kSums; ++k) shared.sums[k][t / kWarp] = sums[k][t];
    });
    block.Each([&](int t) {
      if (t >= count) return;
      float sum[kSums];
      CASTOR_UNROLL
      for (int k = 0; k < kSums; ++k) sum[k] = shared.sums[k][t];
      float value[kValues] = {};
      finish(t, sum, value);
      CASTOR_UNROLL
      for (int k = 0; k < kValues; ++k) shared.values[k][t] = value[k];
    });
  }

  // Calls f(place, r, c, x) for all elements of the block's rows: x points to
  // element c of row r in each of the matrices, and `place` loads and stores a
  // NormRun from there on, or one element if not all arrays that f uses have
  // runs. A program calls it last.
  template <class Block, class F>
  CASTOR_HD void ForEachRun(Block& block, const Shared& shared, bool runs,
                            const F& f) const {
    const int count = Count(block);
    // For each row.
    const int threads = kNormRows / count * kWarp;
    runs = runs && channels % NormRun<T>::kCount == 0;
    for (const T* matrix : matrices) runs = runs && HasNormRuns(matrix);
    block.EachUnsynced([&](int t) {
      const int r = t / threads;
      if (r >= count) return;
      const auto each = [&](auto place) {
        constexpr int kCount = decltype(place)::kCount;
        const Index end = static_cast<Index>(channels);
        for (Index c = t % threads * kCount; c < end; c += threads * kCount) {
          const T* x[kMatrices];
          CASTOR_UNROLL
          for (int k = 0; k < kMatrices; ++k) {
            x[k] = Row(block, shared, k, r) + c;
          }
          f(place, r, c, x);
        }
      };
      if (runs) {
        each(NormRun<T>());
      } else {
        each(NormElement<T>());
      }
    });
  }
};

// to[e] = v + more[e], or v if `more` is null, for a place from e on.
template <class Place, class V, class T>
CASTOR_HD void StoreSum(Place place, V v, const T* more, int64_t e, T* to) {
  if (more != nullptr) {
    const V added = place.LoadFrom(more + e);
    CASTOR_UNROLL
    for (int i = 0; i < place.kCount; ++i) v.at[i] = Add(v.at[i], added.at[i]);
  }
  place.StoreTo(to + e, v);
}

// Makes NormRows of these matrices.
template <class T, int kMatrices, bool kStaged>
NormRows<T, kMatrices, kStaged> MakeNormRows(
    int64_t rows, int64_t channels, const void* const (&matrices)[kMatrices]) {
  using Rows = NormRows<T, kMatrices, kStaged>;
  Rows of = {.rows = rows,
             .channels = channels,
             .rows_of_block = Rows::RowsOfBlock(channels),
             .matrices = {}};
  for (int k = 0; k < kMatrices; ++k) {
    of.matrices[k] = static_cast<const T*>(matrices[k]);
  }
  return of;
}

// Calls f(std::bool_constant), true if rows of `channels` elements are copied
// to shared memory.
template <class T, class F>
auto WithStaged(int64_t channels, const F& f) {
  return channels <= kNormElements<T> ? f(std::true_type())
                                      : f(std::false_type());
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_NORM_ROWS_H_
