// Adafactor with the bits of the host's (kernels/adafactor/cpu.cc): every
// element goes through the same operations in the same order, each rounded
// once, and sums are exact from the same parts on.
#ifndef CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_PROGRAM_H_
#define CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_PROGRAM_H_

#include <cmath>
#include <cstdint>

#include "kernels/adafactor/adafactor_math.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/range_pieces.h"
#include "kernels/exact_sum/exact_sum_program.h"

namespace castor::kernels::cuda {

// Equals kAdafactorSums, which cuda.cc checks.
inline constexpr int kSumsOfAParameter = 2;

using AdafactorPieces = RangePieces<AdafactorScalars, 28>;

// Returns u of a gradient, which is scaled.
CASTOR_HD float AdafactorDirection(const AdafactorScalars& s, int64_t element,
                                   const float* factors, float g) {
  const AdafactorPlace place = AdafactorPlaceOf(s, element);
  const float row = factors[place.row];
  return Mul(place.column < 0 ? row : Mul(row, factors[place.column]), g);
}

// A thread has a tile, whose rows it adds up. G: the gradient's type.
template <class G>
struct AdafactorMarginsProgram {
  static constexpr int kThreads = 256;
  static constexpr int64_t kBlock = int64_t{kThreads} * kSquaresTile;
  using Shared = NoShared;

  const G* gradient;
  const float* grad_scale;
  int64_t* sums;  // [margins, ExactSumWords::kWords]
  AdafactorPieces pieces;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const float scale = *grad_scale;
    if (!std::isfinite(scale)) return;  // the step is skipped
    const AdafactorPieces::Piece& piece = pieces.OfBlock(block.index());
    const AdafactorScalars& s = piece.scalars;
    const int64_t first =
        piece.begin + (block.index() - piece.blocks_before) * kBlock;
    block.EachUnsynced([&](int t) {
      const int64_t begin = first + int64_t{t} * kSquaresTile;
      const int64_t end = Min(piece.end, begin + kSquaresTile);
      double row_sum = 0;
      int64_t row = -1;
      for (int64_t e = begin; e < end; ++e) {
        const AdafactorPlace place =
            AdafactorPlaceOf(s, s.first + (e - piece.begin));
        const float g = Mul(Load(gradient + e), scale);
        if (place.row != row) {
          if (row >= 0) {
            AddToExactSum(block, row_sum, sums + row * ExactSumWords::kWords);
          }
          row = place.row;
          row_sum = 0;
        }
        row_sum = AddSquare(row_sum, g);
        if (place.column >= 0) {
          AddToExactSum(block, AddSquare(0, g),
                        sums + place.column * ExactSumWords::kWords);
        }
      }
      if (row >= 0) {
        AddToExactSum(block, row_sum, sums + row * ExactSumWords::kWords);
      }
    });
  }
};

template <class G>
struct AdafactorMeasureProgram {
  static constexpr int kThreads = TileSquares::kThreads;
  using Shared = TileSquares::Shared<kSumsOfAParameter>;

  const G* gradient;
  const float* master;
  const float* factors;
  const float* grad_scale;
  int64_t* sums;  // [parameters, kSumsOfAParameter, ExactSumWords::kWords]
  AdafactorPieces pieces;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const float scale = *grad_scale;
    if (!std::isfinite(scale)) return;  // the step is skipped
    const AdafactorPieces::Piece& piece = pieces.OfBlock(block.index());
    const AdafactorScalars& s = piece.scalars;
    int64_t* const words = sums + s.first_sum * ExactSumWords::kWords;
    const ExactSumWords rows[kSumsOfAParameter] = {
        {words}, {words + ExactSumWords::kWords}};
    TileSquares::Add(
        block, shared,
        piece.begin +
            (block.index() - piece.blocks_before) * TileSquares::kBlock,
        piece.end,
        [&](int64_t e, float* out) {
          out[0] = master[e];
          out[1] = AdafactorDirection(s, s.first + (e - piece.begin), factors,
                                      Mul(Load(gradient + e), scale));
        },
        rows, 0);
  }
};

// T: payload's type.
template <class T, class G>
struct AdafactorApplyProgram {
  static constexpr int kThreads = kElementThreads;
  struct Shared {
    AdafactorStep step;
  };

  T* payload;
  const G* gradient;  // payload, or the sum
  float* master;
  float* m;  // may be null
  const float* factors;
  const float* grad_scale;
  const double* sums;  // [parameters, kSumsOfAParameter]
  AdafactorPieces pieces;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const AdafactorPieces::Piece& piece = pieces.OfBlock(block.index());
    const AdafactorScalars& s = piece.scalars;
    const int64_t first =
        piece.begin + (block.index() - piece.blocks_before) * kElementsPerBlock;
    const float scale = *grad_scale;
    // A step that is skipped (kernels/adafactor/adafactor.h) writes only
    // payload.
    const bool skip = !std::isfinite(scale);
    block.Each([&](int t) {
      if (t != 0) return;
      shared.step =
          MakeAdafactorStep(s, sums[s.first_sum], sums[s.first_sum + 1]);
    });
    block.EachUnsynced([&](int t) {
      ForThreadsElements(t, first, piece.end, [&](int64_t e) {
        float p = master[e];
        if (!skip) {
          const float u =
              AdafactorDirection(s, s.first + (e - piece.begin), factors,
                                 Mul(Load(gradient + e), scale));
          p = AdafactorValue(s, shared.step, u, p,
                             m == nullptr ? nullptr : m + e);
          master[e] = p;
        }
        Store(p, payload + e);
      });
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_PROGRAM_H_
