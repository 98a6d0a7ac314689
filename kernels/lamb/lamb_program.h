// LAMB with the bits of the host's (kernels/lamb/cpu.cc): every element goes
// through the same operations in the same order, each rounded once, and sums
// are exact from their tiles on.
#ifndef CASTOR_KERNELS_LAMB_LAMB_PROGRAM_H_
#define CASTOR_KERNELS_LAMB_LAMB_PROGRAM_H_

#include <cmath>
#include <cstdint>

#include "kernels/adam/moments_program.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/range_pieces.h"
#include "kernels/exact_sum/exact_sum_program.h"
#include "kernels/lamb/lamb_math.h"

namespace castor::kernels::cuda {

// The sums of a parameter; equals kLambSums, which cuda.cc checks.
inline constexpr int kLambRows = 2;

using LambPieces = RangePieces<LambScalars, 44>;

// Returns u of a parameter and its moments.
CASTOR_HD float LambDirection(const LambScalars& s, float p, float m, float v) {
  const float denominator = Add(Div(Sqrt(v), s.correction2_sqrt), s.eps);
  return Fma(s.weight_decay, p,
             Div(Mul(m, s.correction1_inverse), denominator));
}

// G: the gradient's type.
template <class G>
struct LambMeasureProgram {
  static constexpr int kThreads = TileSquares::kThreads;
  using Shared = TileSquares::Shared<kLambRows>;

  const G* gradient;
  const float* master;
  float *m, *v;
  const float* grad_scale;
  int64_t* sums;  // [parameters, kLambRows, ExactSumWords::kWords]
  LambPieces pieces;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const float scale = *grad_scale;
    if (!std::isfinite(scale)) return;  // the step is skipped
    const LambPieces::Piece& piece = pieces.OfBlock(block.index());
    const LambScalars& s = piece.scalars;
    int64_t* const words = sums + s.first_sum * ExactSumWords::kWords;
    const ExactSumWords rows[kLambRows] = {{words},
                                           {words + ExactSumWords::kWords}};
    TileSquares::Add(
        block, shared,
        piece.begin +
            (block.index() - piece.blocks_before) * TileSquares::kBlock,
        piece.end,
        [&](int64_t e, float* out) {
          float m_e = m[e], v_e = v[e];
          UpdateMoments(s.moments, Mul(Load(gradient + e), scale), m_e, v_e);
          m[e] = m_e;
          v[e] = v_e;
          out[0] = master[e];
          out[1] = LambDirection(s, out[0], m_e, v_e);
        },
        rows, 0);
  }
};

// T: payload's type.
template <class T>
struct LambApplyProgram {
  static constexpr int kThreads = kElementThreads;
  struct Shared {
    float step_size;
  };

  T* payload;
  float* master;
  const float *m, *v;
  const float* grad_scale;
  const double* sums;  // [parameters, kLambRows]
  LambPieces pieces;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const LambPieces::Piece& piece = pieces.OfBlock(block.index());
    const LambScalars& s = piece.scalars;
    const int64_t first =
        piece.begin + (block.index() - piece.blocks_before) * kElementsPerBlock;
    // A step that is skipped (kernels/lamb/lamb.h) writes only payload.
    const bool skip = !std::isfinite(*grad_scale);
    block.Each([&](int t) {
      if (t != 0) return;
      shared.step_size =
          LambStepSize(s, sums[s.first_sum], sums[s.first_sum + 1]);
    });
    const bool runs = first % kRun == 0 && HasRuns(payload) &&
                      HasRuns(master) && HasRuns(m) && HasRuns(v);
    ForEachPlace(block, first, piece.end, runs, [&](const auto& place) {
      auto p_e = place.LoadFrom(master);
      if (!skip) {
        const auto m_e = place.LoadFrom(m);
        const auto v_e = place.LoadFrom(v);
        CASTOR_UNROLL
        for (int i = 0; i < place.kCount; ++i) {
          p_e.at[i] =
              Fma(shared.step_size,
                  LambDirection(s, p_e.at[i], m_e.at[i], v_e.at[i]), p_e.at[i]);
        }
        place.StoreTo(master, p_e);
      }
      place.StoreTo(payload, p_e);
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_LAMB_LAMB_PROGRAM_H_
