// Adam with packed moments on a GPU, with the host's bits
// (kernels/packed_adam/cpu.cc).
#ifndef CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_PROGRAM_H_
#define CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_PROGRAM_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/philox.h"
#include "base/state_format.h"
#include "kernels/adam/adam_math.h"
#include "kernels/adam/adam_program.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/range_pieces.h"

namespace castor::kernels::cuda {

struct PackedAdamScalars {
  AdamScalars adam;
  RandomKey key;
  int64_t first = 0;  // the parameter's element at the piece's begin
};
using PackedAdamPieces = RangePieces<PackedAdamScalars, 32>;

// G: the gradient's type, payload's own (T) or float (the sum). A thread has a
// run of elements; the threads of a tile are neighbours in a warp.
template <class G, class T, bool kEightBits>
struct PackedAdamProgram {
  static constexpr int kThreads = kElementThreads;
  static constexpr int64_t kBlock = int64_t{kThreads} * kRun;
  static constexpr int kTileThreads = static_cast<int>(kStateTile / kRun);
  static_assert(kWarp % kTileThreads == 0);
  static constexpr StateFormat kM = StateFormat::kSigned8;
  static constexpr StateFormat kV = StateFormat::kUnsigned8;
  // Each thread's largest MagnitudeBits.
  struct Shared {
    uint32_t m[kThreads], v[kThreads];
  };
  struct Words {
    uint32_t at[kRun];
  };

  const G* gradient;  // May be payload.
  T* payload;
  float* master;
  std::byte *m, *v;  // at multiples of 4 bytes
  int64_t elements;  // of each of these arrays
  const float* grad_scale;
  PackedAdamPieces pieces;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const PackedAdamPieces::Piece& piece = pieces.OfBlock(block.index());
    const PackedAdamScalars& s = piece.scalars;
    const int64_t first =
        piece.begin + (block.index() - piece.blocks_before) * kBlock;
    const float scale = *grad_scale;
    // A step that is skipped writes only payload.
    const bool skip = !std::isfinite(scale);
    typename Block::template PerThread<Values<kRun>> m_new, v_new;
    typename Block::template PerThread<Words> words;
    block.EachUnsynced([&](int t) {
      const int64_t e = first + t * kRun;
      float p[kRun] = {}, m_e[kRun] = {}, v_e[kRun] = {};
      LoadFloats(master, e, piece.end, p);
      if (!skip) {
        float g[kRun] = {};
        LoadFloats(gradient, e, piece.end, g);
        LoadMoments<kM>(m, e, piece.end, m_e);
        LoadMoments<kV>(v, e, piece.end, v_e);
        CASTOR_UNROLL
        for (int i = 0; i < kRun; ++i) {
          if (e + i >= piece.end) continue;
          AdamElement(s.adam, scale, g[i], p[i], m_e[i], v_e[i]);
        }
        StoreFloats(p, e, piece.end, master);
      }
      StoreFloats(p, e, piece.end, payload);
      CASTOR_UNROLL
      for (int i = 0; i < kRun; ++i) {
        m_new[t].at[i] = m_e[i];
        v_new[t].at[i] = v_e[i];
      }
      const auto drawn = Philox4x32(
          s.key, static_cast<uint64_t>(s.first + e - piece.begin) / 4);
      CASTOR_UNROLL
      for (int i = 0; i < kRun; ++i) words[t].at[i] = drawn[i];
      shared.m[t] = Most<16>(m_e, words[t]);
      shared.v[t] = Most<0>(v_e, words[t]);
    });
    block.Rejoin();
    if (skip) return;
    block.EachUnsynced([&](int t) {
      const int64_t e = first + t * kRun;
      // Also what lies behind the end in the last element's tile.
      if (e / kStateTile * kStateTile >= piece.end) return;
      StoreMoments<kM, 16>(words[t], m_new[t].at, shared.m, t, e, piece.end, m);
      StoreMoments<kV, 0>(words[t], v_new[t].at, shared.v, t, e, piece.end, v);
    });
  }

  template <class X>
  CASTOR_HD static void LoadFloats(const X* from, int64_t e, int64_t end,
                                   float* to) {
    if (e + kRun <= end && HasRuns(from)) {
      LoadRun(from + e, to);
      return;
    }
    for (int i = 0; i < kRun && e + i < end; ++i) to[i] = Load(from + e + i);
  }
  template <class X>
  CASTOR_HD static void StoreFloats(const float* from, int64_t e, int64_t end,
                                    X* to) {
    if (e + kRun <= end && HasRuns(to)) {
      StoreRun(from, to + e);
      return;
    }
    for (int i = 0; i < kRun && e + i < end; ++i) Store(from[i], to + e + i);
  }

  // kShift: where the 16 random bits of a moment stand in a word.
  template <int kShift>
  CASTOR_HD static uint32_t Random(const Words& words, int i) {
    return words.at[i] >> kShift & 0xffffu;
  }
  template <int kShift>
  CASTOR_HD static uint32_t Most(const float* values, const Words& words) {
    uint32_t most = 0;
    CASTOR_UNROLL
    for (int i = 0; i < kRun; ++i) {
      most = Max(most, MagnitudeBits(values[i], Random<kShift>(words, i) << 4));
    }
    return most;
  }
  CASTOR_HD float* ScaleAt(std::byte* states, int64_t e) const {
    return reinterpret_cast<float*>(states + elements) + e / kStateTile;
  }

  template <StateFormat kFormat>
  CASTOR_HD void LoadMoments(std::byte* from, int64_t e, int64_t end,
                             float* to) const {
    if (e >= end) return;
    if constexpr (kEightBits) {
      const TileScale scale = MakeTileScale(kFormat, *ScaleAt(from, e));
      const uint32_t codes = *reinterpret_cast<const uint32_t*>(from + e);
      for (int i = 0; i < kRun && e + i < end; ++i) {
        to[i] = DecodeByte(kFormat, scale, codes >> (8 * i) & 255u);
      }
    } else {
      LoadFloats(reinterpret_cast<const BFloat16*>(from), e, end, to);
    }
  }

  template <StateFormat kFormat, int kShift>
  CASTOR_HD void StoreMoments(const Words& words, const float* values,
                              const uint32_t* most_of_threads, int t, int64_t e,
                              int64_t end, std::byte* to) const {
    if constexpr (kEightBits) {
      const int tile_first = t / kTileThreads * kTileThreads;
      uint32_t most = 0;
      for (int i = 0; i < kTileThreads; ++i) {
        most = Max(most, most_of_threads[tile_first + i]);
      }
      const TileScale scale = MakeTileScale(kFormat, ScaleOfTile(most));
      if (t == tile_first) *ScaleAt(to, e) = scale.scale;
      uint32_t codes = 0;
      CASTOR_UNROLL
      for (int i = 0; i < kRun; ++i) {
        codes |= uint32_t{EncodeByte(kFormat, scale, values[i],
                                     Random<kShift>(words, i) << 4)}
                 << (8 * i);
      }
      *reinterpret_cast<uint32_t*>(to + e) = codes;
    } else {
      auto* const narrow = reinterpret_cast<BFloat16*>(to);
      for (int i = 0; i < kRun && e + i < end; ++i) {
        narrow[e + i] =
            RoundStochastically(values[i], Random<kShift>(words, i));
      }
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_PROGRAM_H_
