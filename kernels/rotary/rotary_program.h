// Rotary position embedding, with the bits of the host's (cpu.cc).
//
// A block has some whole rows. A row is cut into pieces: for each head its
// pairs, then, unless y is x, the channels that are not rotated. Pieces are
// runs of kRun pairs (or channels) if sizes and addresses allow that, else
// single ones; neighbouring threads take neighbours.
#ifndef CASTOR_KERNELS_ROTARY_ROTARY_PROGRAM_H_
#define CASTOR_KERNELS_ROTARY_ROTARY_PROGRAM_H_

#include <cstdint>

#include "base/document_range.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// kWidth: pairs of a piece, kRun or 1.
template <class T, int kWidth>
struct RotaryProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t rows, stride, begin;
  int length, heads, head_size, half;
  int copied;  // channels of a head that are copied
  bool inverse;
  const DocumentRange* documents;  // [N], or null
  const float *cos, *sin;
  const T* x;
  T* y;

  // The number of pieces of a head, and of a row.
  CASTOR_HD int HeadPieces() const { return (half + copied) / kWidth; }
  CASTOR_HD int RowPieces() const { return heads * HeadPieces(); }
  // Returns the rows of a block, such that each thread has a few pieces.
  CASTOR_HD int BlockRows() const {
    return Max(1, 4 * kThreads / Max(1, RowPieces()));
  }
  CASTOR_HD int64_t Blocks() const {
    return RowPieces() == 0 ? 0 : (rows + BlockRows() - 1) / BlockRows();
  }

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const int64_t first = block.index() * BlockRows();
    const int pieces =
        static_cast<int>(Min<int64_t>(BlockRows(), rows - first)) * RowPieces();
    // The place of the block's first row within its sequence.
    const int at = static_cast<int>(first % length);
    block.EachUnsynced([&](int t) {
      for (int i = t; i < pieces; i += kThreads) {
        const int row = i / RowPieces();
        const int head = i % RowPieces() / HeadPieces();
        const int channel = i % HeadPieces() * kWidth;
        const int64_t e = (first + row) * stride + int64_t{head} * head_size;
        if (channel < half) {
          int64_t position = begin + (at + row) % length;
          if (documents != nullptr) position -= documents[first + row].begin;
          Turn(e + channel, position * half + channel);
        } else {
          Copy(e + half + channel);
        }
      }
    });
  }

 private:
  template <class U>
  CASTOR_HD static Values<kWidth> LoadPiece(const U* p) {
    Values<kWidth> values;
    if constexpr (kWidth == kRun) {
      LoadRun(p, values.at);
    } else {
      values.at[0] = Load(p);
    }
    return values;
  }
  CASTOR_HD void StorePiece(const Values<kWidth>& values, int64_t e) const {
    if constexpr (kWidth == kRun) {
      StoreRun(values.at, y + e);
    } else {
      Store(values.at[0], y + e);
    }
  }

  // Rotates the pairs whose first channels begin at element e, by the angles
  // from element `at` of the tables.
  CASTOR_HD void Turn(int64_t e, int64_t at) const {
    const auto a = LoadPiece(x + e);
    const auto b = LoadPiece(x + e + half);
    const auto c = LoadPiece(cos + at);
    const auto s = LoadPiece(sin + at);
    Values<kWidth> first, second;
    CASTOR_UNROLL
    for (int i = 0; i < kWidth; ++i) {
      const float angle_sin = inverse ? -s.at[i] : s.at[i];
      first.at[i] = Sub(Mul(a.at[i], c.at[i]), Mul(b.at[i], angle_sin));
      second.at[i] = Add(Mul(b.at[i], c.at[i]), Mul(a.at[i], angle_sin));
    }
    StorePiece(first, e);
    StorePiece(second, e + half);
  }
  CASTOR_HD void Copy(int64_t e) const { StorePiece(LoadPiece(x + e), e); }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ROTARY_ROTARY_PROGRAM_H_
