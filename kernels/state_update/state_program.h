// An update with states in several formats on a GPU (state_update.h), with the
// host's bits (state_update-inl.h).
//
// The arithmetic is a Rule's:
//
//   struct Rule {
//     static constexpr int kStates = 1;  // of each element
//     using Scalars = ...;               // the coefficients of a range
//     // Makes new values of p and of the element's states.
//     CASTOR_HD static void Step(const Scalars& s, float grad_scale,
//                                float grad, float& p, float* states);
//   };
#ifndef CASTOR_KERNELS_STATE_UPDATE_STATE_PROGRAM_H_
#define CASTOR_KERNELS_STATE_UPDATE_STATE_PROGRAM_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/philox.h"
#include "base/state_format.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/range_pieces.h"
#include "kernels/state_update/formats.h"

namespace castor::kernels::cuda {

template <class RuleScalars>
struct StateScalars {
  RuleScalars of_rule;
  RandomKey key;
  int64_t first = 0;  // the parameter's element at the piece's begin
};

// G: the gradient's type, payload's own (T) or float (the sum). A thread has a
// run of elements; the threads of a tile are neighbours in a warp.
template <class Rule, class G, class T>
struct StateProgram {
  static constexpr int kStates = Rule::kStates;
  static constexpr int kThreads = kElementThreads;
  static constexpr int64_t kBlock = int64_t{kThreads} * kRun;
  static constexpr int kTileThreads = static_cast<int>(kStateTile / kRun);
  static_assert(kWarp % kTileThreads == 0);
  using Scalars = StateScalars<typename Rule::Scalars>;
  using Pieces = RangePieces<Scalars, 32>;
  // Each thread's largest MagnitudeBits.
  struct Shared {
    uint32_t most[kStates][kThreads];
  };
  struct Words {
    uint32_t at[kRun];
  };
  struct States {
    float at[kStates][kRun];
  };

  const G* gradient;  // May be payload.
  T* payload;
  std::byte* master;  // not fp32 only if T is bf16
  StateFormat master_format;
  std::byte* states[kStates];  // at multiples of 4 bytes
  int bits;                    // of a state, or 0: there are none
  int64_t elements;            // of each of these arrays
  const float* grad_scale;
  Pieces pieces;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const typename Pieces::Piece& piece = pieces.OfBlock(block.index());
    const Scalars& s = piece.scalars;
    const int64_t first =
        piece.begin + (block.index() - piece.blocks_before) * kBlock;
    const float scale = *grad_scale;
    // A step that is skipped writes only payload.
    const bool skip = !std::isfinite(scale);
    typename Block::template PerThread<States> values;
    typename Block::template PerThread<Words> words;
    block.EachUnsynced([&](int t) {
      const int64_t e = first + t * kRun;
      float p[kRun] = {};
      States x = {};
      LoadMaster(e, piece.end, p);
      if (!skip) {
        float g[kRun] = {};
        LoadFloats(gradient, e, piece.end, g);
        CASTOR_UNROLL
        for (int k = 0; k < kStates; ++k) LoadState(k, e, piece.end, x.at[k]);
        CASTOR_UNROLL
        for (int i = 0; i < kRun; ++i) {
          if (e + i >= piece.end) continue;
          float of_element[kStates];
          for (int k = 0; k < kStates; ++k) of_element[k] = x.at[k][i];
          Rule::Step(s.of_rule, scale, g[i], p[i], of_element);
          for (int k = 0; k < kStates; ++k) x.at[k][i] = of_element[k];
        }
      }
      StoreMaster(p, skip, s, e, e - piece.begin, piece.end);
      values[t] = x;
      if (bits == 0 || bits == 32) return;
      words[t] = WordsOf(s.key, s.first + e - piece.begin);
      CASTOR_UNROLL
      for (int k = 0; k < kStates; ++k) {
        shared.most[k][t] = Most(k, x.at[k], words[t]);
      }
    });
    block.Rejoin();
    if (skip || bits == 0) return;
    block.EachUnsynced([&](int t) {
      const int64_t e = first + t * kRun;
      // In the last element's tile, threads behind the end go on, too.
      if (e / kStateTile * kStateTile >= piece.end) return;
      CASTOR_UNROLL
      for (int k = 0; k < kStates; ++k) {
        StoreState(k, words[t], values[t].at[k], shared.most[k], t, e,
                   piece.end);
      }
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

  CASTOR_HD int8_t* Rests() const {
    return reinterpret_cast<int8_t*>(master + elements * sizeof(BFloat16));
  }
  CASTOR_HD void LoadMaster(int64_t e, int64_t end, float* to) const {
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (master_format != StateFormat::kFloat32) {
        const auto* const nearest = reinterpret_cast<const BFloat16*>(master);
        LoadFloats(nearest, e, end, to);
        if (master_format == StateFormat::kBFloat16) return;
        for (int i = 0; i < kRun && e + i < end; ++i) {
          to[i] = Join({nearest[e + i], Rests()[e + i]});
        }
        return;
      }
    }
    LoadFloats(reinterpret_cast<const float*>(master), e, end, to);
  }
  // Stores masters, unless the step is skipped, and the payload. `of_range`:
  // elements from the range's begin to `e`.
  CASTOR_HD void StoreMaster(const float* from, bool skip, const Scalars& s,
                             int64_t e, int64_t of_range, int64_t end) const {
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (master_format != StateFormat::kFloat32) {
        if (!skip) RoundMaster(from, s, e, of_range, end);
        const auto* const nearest = reinterpret_cast<const BFloat16*>(master);
        for (int i = 0; i < kRun && e + i < end; ++i) {
          payload[e + i] = nearest[e + i];
        }
        return;
      }
    }
    if (!skip) StoreFloats(from, e, end, reinterpret_cast<float*>(master));
    StoreFloats(from, e, end, payload);
  }
  CASTOR_HD void RoundMaster(const float* from, const Scalars& s, int64_t e,
                             int64_t of_range, int64_t end) const {
    auto* const nearest = reinterpret_cast<BFloat16*>(master);
    const Words words = WordsOf(MasterKey(s.key), s.first + of_range);
    CASTOR_UNROLL
    for (int i = 0; i < kRun; ++i) {
      if (e + i >= end) continue;
      if (master_format == StateFormat::kBFloat16) {
        nearest[e + i] = RoundStochastically(
            from[i], RoundingBits(StateFormat::kBFloat16, 0, words.at[i]));
        continue;
      }
      const SplitFloat split =
          Split(from[i], RoundingBits(StateFormat::kSplit, 0, words.at[i]));
      nearest[e + i] = split.nearest;
      Rests()[e + i] = split.rest;
    }
  }

  // StateWord of kRun elements, which a multiple of kRun begins.
  CASTOR_HD static Words WordsOf(RandomKey key, int64_t element) {
    static_assert(kRun == 4 && kStateTile / 2 % kRun == 0);
    const auto of_tile = static_cast<uint64_t>(element % kStateTile);
    const auto drawn = Philox4x32(
        key, (static_cast<uint64_t>(element / kStateTile) * (kStateTile / 2) +
              of_tile % (kStateTile / 2)) /
                 kRun);
    const bool swaps = of_tile >= kStateTile / 2;
    Words words;
    CASTOR_UNROLL
    for (int i = 0; i < kRun; ++i) {
      words.at[i] = swaps ? drawn[i] << 16 | drawn[i] >> 16 : drawn[i];
    }
    return words;
  }
  CASTOR_HD static uint32_t Most(int state, const float* values,
                                 const Words& words) {
    uint32_t most = 0;
    CASTOR_UNROLL
    for (int i = 0; i < kRun; ++i) {
      most = Max(most,
                 MagnitudeBits(values[i], RoundingBits(FormatOfState(8, state),
                                                       state, words.at[i])));
    }
    return most;
  }
  CASTOR_HD float* ScaleAt(int state, int64_t e) const {
    return reinterpret_cast<float*>(states[state] + elements) + e / kStateTile;
  }

  CASTOR_HD void LoadState(int state, int64_t e, int64_t end, float* to) const {
    if (e >= end) return;
    const std::byte* const from = states[state];
    if (bits == 8) {
      const StateFormat format = FormatOfState(8, state);
      const TileScale scale = MakeTileScale(format, *ScaleAt(state, e));
      const uint32_t codes = *reinterpret_cast<const uint32_t*>(from + e);
      for (int i = 0; i < kRun && e + i < end; ++i) {
        to[i] = DecodeByte(format, scale, codes >> (8 * i) & 255u);
      }
    } else if (bits == 16) {
      LoadFloats(reinterpret_cast<const BFloat16*>(from), e, end, to);
    } else if (bits == 32) {
      LoadFloats(reinterpret_cast<const float*>(from), e, end, to);
    }
  }

  CASTOR_HD void StoreState(int state, const Words& words, const float* values,
                            const uint32_t* most_of_threads, int t, int64_t e,
                            int64_t end) const {
    std::byte* const to = states[state];
    if (bits == 8) {
      const StateFormat format = FormatOfState(8, state);
      const int tile_first = t / kTileThreads * kTileThreads;
      uint32_t most = 0;
      for (int i = 0; i < kTileThreads; ++i) {
        most = Max(most, most_of_threads[tile_first + i]);
      }
      const TileScale scale = MakeTileScale(format, ScaleOfTile(most));
      if (t == tile_first) *ScaleAt(state, e) = scale.scale;
      uint32_t codes = 0;
      CASTOR_UNROLL
      for (int i = 0; i < kRun; ++i) {
        codes |= uint32_t{EncodeByte(format, scale, values[i],
                                     RoundingBits(format, state, words.at[i]))}
                 << (8 * i);
      }
      *reinterpret_cast<uint32_t*>(to + e) = codes;
    } else if (bits == 16) {
      auto* const narrow = reinterpret_cast<BFloat16*>(to);
      for (int i = 0; i < kRun && e + i < end; ++i) {
        narrow[e + i] = RoundStochastically(
            values[i],
            RoundingBits(StateFormat::kBFloat16, state, words.at[i]));
      }
    } else {
      StoreFloats(values, e, end, reinterpret_cast<float*>(to));
    }
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_STATE_UPDATE_STATE_PROGRAM_H_
