// The sum of squares, exact from the tiles' sums on
// (kernels/exact_sum/exact_sum.h): the host's bits. The only atomics are on
// integers.
#ifndef CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_PROGRAM_H_
#define CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_PROGRAM_H_

#include <bit>
#include <cstdint>

#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// ExactSum::kLimbs and kNormTile: cuda.cc checks that they are equal.
inline constexpr int kExactLimbs = 68;
inline constexpr int kSquaresTile = 64;

// A non-negative double as three words of 32 bits from a limb on; limb -1: it
// is none (NaN or infinite).
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

// A block has kTiles tiles. A tile's element i goes into partial sum i mod 8;
// partial sums are added 0 + 4, 1 + 5, 2 + 6, 3 + 7, these 0 + 2, 1 + 3, then
// the two.
template <class T>
struct AddSquaresProgram {
  static constexpr int kPartialSums = 8;
  static constexpr int kThreads = 256;
  static constexpr int kTilesAtOnce = kThreads / kPartialSums;
  static constexpr int kRounds = 16;
  static constexpr int kTiles = kTilesAtOnce * kRounds;
  static constexpr int64_t kBlock = int64_t{kTiles} * kSquaresTile;
  struct Shared {
    double partial[kThreads];
    LimbParts parts[kTiles];
  };

  int64_t size;
  const T* x;
  int64_t* limbs;          // [kExactLimbs]
  int64_t* invalid;        // [1]
  int64_t* invalid_label;  // [1]
  int64_t label;

  CASTOR_HD static int64_t Blocks(int64_t size) {
    return (size + kBlock - 1) / kBlock;
  }

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t first = block.index() * kBlock;
    for (int round = 0; round < kRounds; ++round) {
      block.Each([&](int t) {
        const int64_t tile =
            first +
            int64_t{kSquaresTile} * (round * kTilesAtOnce + t / kPartialSums);
        double sum = 0;
        for (int i = 0; i < kSquaresTile; i += kPartialSums) {
          const int64_t e = tile + i + t % kPartialSums;
          // Exact in double: only additions round.
          const double v = e < size ? Load(x + e) : 0.0f;
          sum = sum + v * v;
        }
        shared.partial[t] = sum;
      });
      block.Each([&](int t) {
        if (t % kPartialSums != 0) return;
        const double* s = shared.partial + t;
        const double sum =
            ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
        shared.parts[round * kTilesAtOnce + t / kPartialSums] =
            SplitIntoLimbs(sum);
      });
    }
    // Thread i has limb i.
    block.Each([&](int t) {
      if (t > kExactLimbs) return;
      int64_t sum = 0;
      for (int i = 0; i < kTiles; ++i) {
        const int limb = shared.parts[i].limb;
        if (t == kExactLimbs) {
          sum += limb < 0 ? 1 : 0;
        } else if (limb >= 0 && t >= limb && t < limb + 3) {
          sum += shared.parts[i].part[t - limb];
        }
      }
      if (sum == 0) return;
      block.AtomicAdd(t == kExactLimbs ? invalid : limbs + t, sum);
      if (t == kExactLimbs) block.AtomicMax(invalid_label, label);
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_PROGRAM_H_
