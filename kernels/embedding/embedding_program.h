// Table look-up and its gradient. For the gradient, positions are sorted by
// their token first (sort_program.h): the warp of a token's first place then
// owns that token's row, and adds the rows of all its positions in their order.
#ifndef CASTOR_KERNELS_EMBEDDING_EMBEDDING_PROGRAM_H_
#define CASTOR_KERNELS_EMBEDDING_EMBEDDING_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/fault.h"
#include "kernels/embedding/sort_program.h"

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
    block.EachUnsynced([&](int t) {
      if (bad) {
        if (t == 0) {
          fault.Report(index, n, vocabulary);
        }
        return;
      }
      for (int64_t c = t; c < channels; c += kThreads) {
        const float row = Load(table + index * channels + c);
        T* to = y + n * channels + c;
        // A copy is exact in fp32, too, except for signalling NaNs.
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
    ForEachPlace(block, size, HasRuns(y), [&](const auto& place) {
      place.StoreTo(y, decltype(place.LoadFrom(y)){});
    });
  }
};

// Rows of dtable that no index names are not written; without `accumulate` they
// are cleared beforehand. There is a warp per place among the sorted positions
// and slice of the columns; only those of a token's first place have work.
template <class T>
struct EmbeddingBackwardProgram {
  static constexpr int kThreads = kEmbeddingThreads;
  static constexpr int kPlaces = kThreads / kWarp;  // of a block
  static constexpr int kSlice = kWarp * kRun;       // columns
  // The number of rows loaded at once, and of places whose keys are read ahead
  // of them.
  static constexpr int kBatch = 8;
  using Shared = NoShared;

  int64_t rows, channels, vocabulary;
  int64_t place_blocks;  // N / kPlaces, rounded up; blocks: that many a slice
  const uint64_t* keys;  // [N] sorted (TokenKey)
  const T* dy;           // [N, C]
  T* dtable;             // [V, C]
  bool accumulate;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    // A launch has fewer than 2^31 blocks; a 64-bit division would be a call.
    const uint32_t at = static_cast<uint32_t>(block.index());
    const uint32_t slice = at / static_cast<uint32_t>(place_blocks);
    const int64_t first =
        int64_t{at - slice * static_cast<uint32_t>(place_blocks)} * kPlaces;
    const bool runs = HasRuns(dy) && HasRuns(dtable) && channels % kRun == 0;
    block.EachUnsynced([&](int t) {
      const int64_t place = first + t / kWarp;
      const int64_t column = int64_t{slice} * kSlice + t % kWarp * kRun;
      if (place >= rows || column >= channels) return;
      const uint32_t token = TokenOf(keys[place]);
      // Tokens outside of the table come last.
      if (token >= vocabulary) return;
      if (place > 0 && TokenOf(keys[place - 1]) == token) return;
      if (runs) {
        AddRows<Run4>(place, token, column);
      } else {
        const int64_t end = Min(column + kRun, channels);
        for (int64_t c = column; c < end; ++c) AddRows<Single>(place, token, c);
      }
    });
  }

 private:
  // Some columns of a row.
  struct Run4 {
    float at[kRun];
    CASTOR_HD void LoadFrom(const T* p) { LoadRun(p, at); }
    CASTOR_HD void StoreTo(T* p) const { StoreRun(at, p); }
  };
  struct Single {
    float at[1];
    CASTOR_HD void LoadFrom(const T* p) { at[0] = Load(p); }
    CASTOR_HD void StoreTo(T* p) const { Store(at[0], p); }
  };
  struct Keys {
    uint64_t at[kBatch];
  };

  CASTOR_HD Keys KeysFrom(int64_t place) const {
    Keys next;
    CASTOR_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      next.at[i] = place + i < rows ? keys[place + i] : kNoToken;
    }
    return next;
  }

  template <class Columns>
  CASTOR_HD void AddRows(int64_t place, uint32_t token, int64_t column) const {
    Columns sum = {};
    Keys batch = KeysFrom(place);
    while (TokenOf(batch.at[0]) == token) {
      Columns row[kBatch] = {};
      CASTOR_UNROLL
      for (int i = 0; i < kBatch; ++i) {
        if (TokenOf(batch.at[i]) == token) {
          row[i].LoadFrom(dy + PositionOf(batch.at[i]) * channels + column);
        }
      }
      place += kBatch;
      const Keys next = KeysFrom(place);
      CASTOR_UNROLL
      for (int i = 0; i < kBatch; ++i) {
        if (TokenOf(batch.at[i]) == token) AddTo(sum, row[i]);
      }
      batch = next;
    }
    T* const to = dtable + token * channels + column;
    if (accumulate) {
      Columns before;
      before.LoadFrom(to);
      AddTo(before, sum);
      sum = before;
    }
    sum.StoreTo(to);
  }

  template <class Columns>
  CASTOR_HD static void AddTo(Columns& to, const Columns& row) {
    CASTOR_UNROLL
    for (int i = 0; i < static_cast<int>(sizeof(row.at) / sizeof(float)); ++i) {
      to.at[i] = Add(to.at[i], row.at[i]);
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_EMBEDDING_EMBEDDING_PROGRAM_H_
