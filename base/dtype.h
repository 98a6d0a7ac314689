// Element types and the 16-bit conversions, in plain C++: the kernels' oracle
// and the reference for every vectorised version.
#ifndef CASTOR_BASE_DTYPE_H_
#define CASTOR_BASE_DTYPE_H_

#include <bit>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace castor {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat16 };

constexpr int64_t SizeOf(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}

constexpr absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat16:
      return "fp16";
  }
  return "";
}

// The upper half of an IEEE binary32.
struct BFloat16 {
  uint16_t bits = 0;

  constexpr BFloat16() = default;
  // Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  constexpr explicit BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x0040u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  // Converts exactly.
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(BFloat16) == 2);

// IEEE binary16: 10 bits of mantissa, at most 65504, 2^-24 at least.
struct Float16 {
  uint16_t bits = 0;

  constexpr Float16() = default;
  // Rounds to nearest, ties to even; from 65520 on infinite; a NaN stays a
  // (quiet) NaN.
  constexpr explicit Float16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = u & 0x7fffffffu;
    uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
    } else if (magnitude >= 0x477ff000u) {
      half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // 2^-14: a normal number
      const uint32_t rebiased = magnitude - (uint32_t{127 - 15} << 23);
      half = (rebiased + 0x0fffu + ((rebiased >> 13) & 1u)) >> 13;
    } else if (magnitude > 0x33000000u) {  // 2^-25, half of the least
      const uint32_t mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
      const uint32_t shift = 126 - (magnitude >> 23);
      const uint32_t rest = mantissa & ((1u << shift) - 1);
      const uint32_t tie = 1u << (shift - 1);
      half = mantissa >> shift;
      if (rest > tie || (rest == tie && (half & 1u) != 0)) ++half;
    }
    bits = static_cast<uint16_t>(((u >> 16) & 0x8000u) | half);
  }
  // Converts exactly; a NaN becomes quiet. It has no branch, so that compilers
  // vectorise a loop of it.
  constexpr explicit operator float() const {
    const uint32_t magnitude = bits & 0x7fffu;
    // All bits are set if it is subnormal.
    const uint32_t subnormal = 0u - ((magnitude - 0x0400u) >> 31);
    const uint32_t infinite = 0u - ((magnitude + 0x0400u) >> 15);  // or a NaN
    const uint32_t nan = 0u - ((magnitude + 0x03ffu) >> 15);
    const uint32_t normal = (magnitude << 13) + (uint32_t{127 - 15} << 23);
    // A unit in the last place of 0.5 is 2^-24, as for subnormal binary16
    // numbers.
    const uint32_t small = std::bit_cast<uint32_t>(
        std::bit_cast<float>(magnitude | 0x3f000000u) - 0.5f);
    return std::bit_cast<float>(static_cast<uint32_t>(bits & 0x8000u) << 16 |
                                (normal & ~subnormal) | (small & subnormal) |
                                (0x7f800000u & infinite) | (0x00400000u & nan));
  }
};
static_assert(sizeof(Float16) == 2);

template <typename T>
inline constexpr DType kDTypeOf = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDTypeOf<Float16> = DType::kFloat16;

}  // namespace castor

#endif  // CASTOR_BASE_DTYPE_H_
