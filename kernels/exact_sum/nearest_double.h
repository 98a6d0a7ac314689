// Computes the value of an exact sum, on the host and on a GPU alike. Light,
// since CUDA sources include it.
#ifndef CASTOR_KERNELS_EXACT_SUM_NEAREST_DOUBLE_H_
#define CASTOR_KERNELS_EXACT_SUM_NEAREST_DOUBLE_H_

#include <bit>
#include <cstdint>

#include "kernels/cuda/portable.h"

namespace castor::kernels {

// Equals ExactSum::kLimbs, which exact_sum.cc checks.
inline constexpr int kExactLimbs = 68;

// Returns the double nearest to the sum over i of limbs[i] 2^(32 i - 1074),
// ties to even; infinity beyond the range of doubles. Limbs are from 0 to 2^63.
CASTOR_HD double NearestDouble(const int64_t* limbs) {
  // Digits of base 2^32 come from the lowest limb up; the last carry, which is
  // below 2^32 too, is the digit above the last limb. The loop keeps the
  // highest digit that is not 0 with the two below it, and notes if any lower
  // one is not 0.
  uint32_t digit = 0, below = 0, lowest = 0;
  bool rest = false;
  uint32_t top_digits[3] = {0, 0, 0};
  bool top_rest = false;
  int top = -1;
  uint64_t carry = 0;
  CASTOR_NO_UNROLL
  for (int i = 0; i <= kExactLimbs; ++i) {
    // At most 2^63 + 2^32: it cannot overflow.
    const uint64_t sum =
        (i < kExactLimbs ? static_cast<uint64_t>(limbs[i]) : 0) + carry;
    rest = rest || lowest != 0;
    lowest = below;
    below = digit;
    digit = static_cast<uint32_t>(sum);
    carry = sum >> 32;
    if (digit != 0) {
      top = i;
      top_digits[0] = digit;
      top_digits[1] = below;
      top_digits[2] = lowest;
      top_rest = rest;
    }
  }
  uint64_t bits;
#ifdef __CUDA_ARCH__
  const int zeros = __clz(static_cast<int>(top_digits[0]));
#else
  const int zeros = std::countl_zero(top_digits[0]);
#endif
  const int highest = 32 * top + 31 - zeros;  // the greatest bit
  const uint64_t high = uint64_t{top_digits[0]} << 32 | top_digits[1];
  if (highest < 53) {
    // A multiple of 2^-1074 below 2^53 of them is its own representation.
    bits = top < 0 ? 0 : top == 0 ? top_digits[0] : high;
  } else {
    // The 64 bits from the highest on: 53 of the mantissa, one for a half, and
    // those below, of which it only matters if one is set.
    const uint64_t word =
        zeros == 0 ? high : high << zeros | top_digits[2] >> (32 - zeros);
    const bool sticky = (word & 0x3ff) != 0 ||
                        static_cast<uint32_t>(top_digits[2] << zeros) != 0 ||
                        top_rest;
    uint64_t mantissa = word >> 11;
    if ((word >> 10 & 1) != 0 && (sticky || (mantissa & 1) != 0)) ++mantissa;
    // The mantissa's highest bit adds 1 to the exponent's field, and so does a
    // carry out of it.
    bits = (static_cast<uint64_t>(highest - 52) << 52) + mantissa;
    const uint64_t infinity = uint64_t{0x7ff} << 52;
    if (bits > infinity) bits = infinity;
  }
#ifdef __CUDA_ARCH__
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return std::bit_cast<double>(bits);
#endif
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_EXACT_SUM_NEAREST_DOUBLE_H_
