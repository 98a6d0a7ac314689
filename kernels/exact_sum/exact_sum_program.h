// The sum of squares, exact from the tiles' sums on
// (kernels/exact_sum/exact_sum.h): the host's bits. The only atomics are on
// integers.
#ifndef CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_PROGRAM_H_
#define CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_PROGRAM_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/exact_sum/nearest_double.h"

namespace castor::kernels::cuda {

// Equals kNormTile, which cuda.cc checks.
inline constexpr int kSquaresTile = 64;

// An ExactSum as an array of integers.
struct ExactSumWords {
  static constexpr int kWords = kExactLimbs + 2;

  int64_t* words;  // [kWords]: limbs, invalid, invalid_label
};

// A non-negative double as three words of 32 bits from a limb on; limb -1 for a
// NaN or infinity.
struct LimbParts {
  int limb;
  uint32_t part[3];
};

CASTOR_HD LimbParts SplitIntoLimbs(double value) {
#ifdef __CUDA_ARCH__
  const uint64_t bits = static_cast<uint64_t>(__double_as_longlong(value));
#else
  const uint64_t bits = std::bit_cast<uint64_t>(value);
#endif
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  if (exponent == 0x7ff) return {-1, {0, 0, 0}};
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  int position = 0;  // of the mantissa's lowest bit, from 2^-1074
  if (exponent != 0) {
    mantissa |= uint64_t{1} << 52;
    position = exponent - 1;
  }
  const int shift = position % 32;
  const uint64_t low = mantissa << shift;
  const uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  return {position / 32,
          {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
           static_cast<uint32_t>(high)}};
}

// Adds a non-negative number to a sum of words, by atomics on integers.
template <class Block>
CASTOR_HD void AddToExactSum(Block& block, double value, int64_t* words) {
  const LimbParts parts = SplitIntoLimbs(value);
  if (parts.limb < 0) {
    block.AtomicAdd(words + kExactLimbs, 1);
    return;
  }
  for (int i = 0; i < 3; ++i) {
    if (parts.part[i] != 0) {
      block.AtomicAdd(words + parts.limb + i, int64_t{parts.part[i]});
    }
  }
}

// Returns x in fp64. Where fp64 is slow, so are conversions to it (a GeForce
// makes two per clock, as many as additions, but 64 operations on integers), so
// integers do it, except for denormals, infinities and NaNs.
CASTOR_HD double Widen(float x) {
#ifdef __CUDA_ARCH__
  constexpr int kArch = __CUDA_ARCH__;
  if constexpr (kArch == 800 || kArch == 900 || kArch == 1000) return x;
#endif
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t smallest_normal = 0x00800000u;
  const uint32_t infinity = 0x7f800000u;
  if (magnitude != 0 &&
      magnitude - smallest_normal >= infinity - smallest_normal) {
    return x;
  }
  // The exponent's bias grows from 127 to 1023, and the field moves by 3 bits.
  const uint32_t high =
      magnitude == 0 ? 0 : (magnitude >> 3) + (uint32_t{1023 - 127} << 20);
  return std::bit_cast<double>(uint64_t{high | (bits ^ magnitude)} << 32 |
                               magnitude << 29);
}

// Returns sum + x x: the square is exact in fp64, so only the addition rounds.
CASTOR_HD double AddSquare(double sum, float x) {
  const double v = Widen(x);
#ifdef __CUDA_ARCH__
  return __fma_rn(v, v, sum);
#else
  return std::fma(v, v, sum);
#endif
}

// Adds, in a block of kThreads threads, the squares of kTiles tiles, for kSums
// rows of numbers at once.
struct TileSquares {
  static constexpr int kPartialSums = 8;
  static constexpr int kThreads = 256;
  static constexpr int kTilesAtOnce = kThreads / kPartialSums;
  static constexpr int kRounds = 16;
  static constexpr int kTiles = kTilesAtOnce * kRounds;
  // The elements of a block.
  static constexpr int64_t kBlock = int64_t{kTiles} * kSquaresTile;

  template <int kSums>
  struct Shared {
    double partial[kSums][kThreads];
    LimbParts parts[kSums][kTiles];
  };

  CASTOR_HD static int64_t Blocks(int64_t size) {
    return (size + kBlock - 1) / kBlock;
  }

  // sums[k] += the squares of row k's elements first, first + 1, ... of the
  // block, as far as they are below `end`. values(e, out) gives element e of
  // all rows in out[kSums] and is called once for each. A tile's element i goes
  // into partial sum i mod 8; partial sums are added 0 + 4, 1 + 5, 2 + 6,
  // 3 + 7, these 0 + 2, 1 + 3, then the two.
  template <int kSums, class Block, class Values>
  CASTOR_HD static void Add(Block& block, Shared<kSums>& shared, int64_t first,
                            int64_t end, const Values& values,
                            const ExactSumWords (&sums)[kSums], int64_t label) {
    for (int round = 0; round < kRounds; ++round) {
      // A tile's threads are neighbours in a warp, so no barrier of the block
      // is needed.
      block.EachUnsynced([&](int t) {
        const int64_t tile =
            first +
            int64_t{kSquaresTile} * (round * kTilesAtOnce + t / kPartialSums);
        double sum[kSums] = {};
        for (int i = 0; i < kSquaresTile; i += kPartialSums) {
          const int64_t e = tile + i + t % kPartialSums;
          float x[kSums] = {};
          if (e < end) values(e, x);
          for (int k = 0; k < kSums; ++k) sum[k] = AddSquare(sum[k], x[k]);
        }
        for (int k = 0; k < kSums; ++k) shared.partial[k][t] = sum[k];
      });
      block.Rejoin();
      block.EachUnsynced([&](int t) {
        if (t % kPartialSums != 0) return;
        for (int k = 0; k < kSums; ++k) {
          const double* s = shared.partial[k] + t;
          const double sum =
              ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
          shared.parts[k][round * kTilesAtOnce + t / kPartialSums] =
              SplitIntoLimbs(sum);
        }
      });
      block.Rejoin();
    }
    block.Each([](int) {});
    // Thread i has limb i.
    block.EachUnsynced([&](int t) {
      if (t > kExactLimbs) return;
      for (int k = 0; k < kSums; ++k) {
        int64_t sum = 0;
        for (int i = 0; i < kTiles; ++i) {
          const LimbParts& parts = shared.parts[k][i];
          if (t == kExactLimbs) {
            sum += parts.limb < 0 ? 1 : 0;
          } else if (parts.limb >= 0 && t >= parts.limb && t < parts.limb + 3) {
            sum += parts.part[t - parts.limb];
          }
        }
        if (sum == 0) continue;
        block.AtomicAdd(sums[k].words + t, sum);
        if (t == kExactLimbs) {
          block.AtomicMax(sums[k].words + kExactLimbs + 1, label);
        }
      }
    });
  }
};

template <class T>
struct AddSquaresProgram {
  static constexpr int kThreads = TileSquares::kThreads;
  using Shared = TileSquares::Shared<1>;

  int64_t size;
  const T* x;
  ExactSumWords sum;
  int64_t label;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const ExactSumWords sums[1] = {sum};
    TileSquares::Add(
        block, shared, block.index() * TileSquares::kBlock, size,
        [&](int64_t e, float* out) { out[0] = Load(x + e); }, sums, label);
  }
};

// A thread for each sum.
struct ExactSumValuesProgram {
  static constexpr int kThreads = 64;
  using Shared = NoShared;

  int64_t count;
  const int64_t* sums;  // [count, ExactSumWords::kWords]
  double* values;       // [count]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    block.EachUnsynced([&](int t) {
      const int64_t i = block.index() * kThreads + t;
      if (i >= count) return;
      const int64_t* words = sums + i * ExactSumWords::kWords;
      values[i] =
          words[kExactLimbs] != 0 ? double{NotANumber()} : NearestDouble(words);
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_PROGRAM_H_
