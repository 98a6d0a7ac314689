// AdamW with the bits of the host's (kernels/adam/cpu.cc): every element goes
// through the same operations in the same order, each rounded once.
#ifndef CASTOR_KERNELS_ADAM_ADAM_PROGRAM_H_
#define CASTOR_KERNELS_ADAM_ADAM_PROGRAM_H_

#include <cstdint>

#include "kernels/adam/adam_math.h"
#include "kernels/adam/moments_program.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/range_pieces.h"

namespace castor::kernels::cuda {

// Updates p, m and v by gradient `grad` (scaled here). The list of roundings is
// at the head of kernels/adam/cpu.cc.
CASTOR_HD void AdamElement(const AdamScalars& s, float grad_scale, float grad,
                           float& p, float& m, float& v) {
  float g = Mul(grad, grad_scale);
  if (s.l2) {
    g = Fma(s.weight_decay, p, g);
  } else {
    p = Mul(p, s.keep);
  }
  UpdateMoments(s.moments, g, m, v);
  const float denominator = Add(Div(Sqrt(v), s.correction2_sqrt), s.eps);
  p = Add(p, Div(Mul(s.minus_step_size, m), denominator));
}

using AdamPieces = RangePieces<AdamScalars, 48>;

// G: the gradient's type, payload's own (T) or float (the sum).
template <class G, class T>
struct AdamProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  const G* gradient;  // May be payload.
  T* payload;
  float *master, *m, *v;
  const float* grad_scale;
  AdamPieces pieces;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    const AdamPieces::Piece& piece = pieces.OfBlock(block.index());
    const int64_t first =
        piece.begin + (block.index() - piece.blocks_before) * kElementsPerBlock;
    const float scale = *grad_scale;
    // A step that is skipped (kernels/adam/adam.h) writes only payload.
    const bool skip = !std::isfinite(scale);
    const bool runs = first % kRun == 0 && HasRuns(gradient) &&
                      HasRuns(payload) && HasRuns(master) && HasRuns(m) &&
                      HasRuns(v);
    ForEachPlace(block, first, piece.end, runs, [&](const auto& place) {
      auto p_e = place.LoadFrom(master);
      if (!skip) {
        auto m_e = place.LoadFrom(m);
        auto v_e = place.LoadFrom(v);
        const auto g_e = place.LoadFrom(gradient);
        CASTOR_UNROLL
        for (int i = 0; i < place.kCount; ++i) {
          AdamElement(piece.scalars, scale, g_e.at[i], p_e.at[i], m_e.at[i],
                      v_e.at[i]);
        }
        place.StoreTo(m, m_e);
        place.StoreTo(v, v_e);
        place.StoreTo(master, p_e);
      }
      place.StoreTo(payload, p_e);
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ADAM_ADAM_PROGRAM_H_
